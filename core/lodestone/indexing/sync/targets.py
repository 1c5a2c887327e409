"""Target collections of a home, and how their points are made from catalog and Parquet files.

There is one collection for each (space, version), with one point per picture, and one of captions. Making points runs no model:
they are projected from stored outputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.catalog.catalog import Catalog
from lodestone.catalog.identity import caption_id
from lodestone.catalog.records import ImageRecord, ImageState, SliceRecord
from lodestone.embeddings.slices import read_part
from lodestone.embeddings.stored import StoredOutputs
from lodestone.embeddings.tables import matrix_of
from lodestone.files.area import FileArea
from lodestone.indexing.tasks import META_PART, SliceParts
from lodestone.sources.uris import folders_of
from lodestone.spaces.base import Projection
from lodestone.spaces.names import CAPTIONS
from lodestone.store.base import Filter, MatchAny, PointBatch, VectorStore
from lodestone.text_encoders.base import TextEncoder
from lodestone_schemas.collections import CAPTION_FIELDS, PAYLOAD_FIELDS, FieldKind

_PAGE: Final = 2048


class Target(ABC):
    """A collection whose points are made from catalog and Parquet files."""

    fields: ClassVar[tuple[tuple[str, FieldKind], ...]]
    promoted = True  # whether its alias shall point at it

    def __init__(
        self, *, catalog: Catalog, embeddings: FileArea, alias: str, collection: str, dim: int, required: tuple[str, ...]
    ) -> None:
        self.catalog = catalog
        self.embeddings = embeddings
        self.alias = alias
        self.collection = collection
        self.dim = dim
        self.required = required  # parts that a slice must have before it can be loaded

    @abstractmethod
    def points(self, slices: Sequence[SliceRecord]) -> PointBatch:
        """Return the points of those pictures of the slices that can be found now."""

    @abstractmethod
    def delete(self, store: VectorStore, image_ids: Sequence[str]) -> None:
        """Remove all points of these pictures."""

    @abstractmethod
    def orphan_points(self, points: PointBatch) -> list[str]:
        """Return the ids of those points that the catalog does not know."""

    @abstractmethod
    def expected(self) -> tuple[int, int]:
        """Return the least and the largest valid number of points; they differ while pictures wait to be embedded again."""

    @abstractmethod
    def point_ids(self, record: SliceRecord) -> list[str]:
        """Return the ids of the points that the collection should have of a slice, read from the catalog alone."""

    def warm_up(self) -> None:  # noqa: B027 - most need nothing
        """Load what `points` needs. To be called once, before several threads call `points`."""

    def write(
        self,
        store: VectorStore,
        slices: Sequence[SliceRecord],  # noqa: ARG002 - used by targets with several points per picture
        points: PointBatch,
        *,
        fresh: bool = False,  # noqa: ARG002
    ) -> None:
        """Store these points of the slices in the collection, durably.

        Args:
            store: Vector store that holds the collection.
            slices: Slices that the points belong to.
            points: Result of `points` for the slices.
            fresh: True when the collection has no older points of these slices.
        """
        if len(points):
            store.upsert(self.collection, points)


class SpaceTarget(Target):
    """The collection of one (space, version).

    Args:
        catalog: Knows the pictures.
        embeddings: Area of the stored outputs.
        parts: Names of the parts that hold them.
        projection: Turns outputs into vectors.
        promoted: False for a version that a model swap keeps beside the one that is searched.
    """

    fields = PAYLOAD_FIELDS

    def __init__(
        self, *, catalog: Catalog, embeddings: FileArea, parts: SliceParts, projection: Projection, promoted: bool = True
    ) -> None:
        self.promoted = promoted
        backbones = dict.fromkeys(key.backbone for key in projection.requires)
        super().__init__(
            catalog=catalog,
            embeddings=embeddings,
            alias=projection.name,
            collection=projection.collection,
            dim=projection.dim,
            required=(*(parts.backbones[name] for name in backbones), META_PART),
        )
        self._stored = StoredOutputs(catalog, embeddings, parts.backbones, projection.requires)
        self._projection = projection

    def points(self, slices: Sequence[SliceRecord]) -> PointBatch:
        """Read the slices' stored outputs and project them; one point per active picture."""
        images: list[ImageRecord] = []
        columns: dict[OutputKey, list[NDArray[np.float16]]] = {key: [] for key in self._projection.requires}
        for record in slices:
            members, outputs = self._stored.read(record, self.catalog.receipts(record.slice_id))
            images += members
            for key, rows in outputs.items():
                columns[key].append(rows)
        if not images:
            return PointBatch([], np.empty((0, self.dim), np.float32), [])
        joined = BackboneOutputs({key: np.concatenate(rows) for key, rows in columns.items()})
        self.warm_up()
        return PointBatch([image.image_id for image in images], self._projection.project(joined), payloads(images))

    def point_ids(self, record: SliceRecord) -> list[str]:
        """Return the ids of the slice's active pictures."""
        return [image.image_id for image in self.catalog.slice_images(record.slice_id, states=(ImageState.ACTIVE,))]

    def warm_up(self) -> None:
        """Load the projection's weights."""
        self._projection.warm_up()

    def delete(self, store: VectorStore, image_ids: Sequence[str]) -> None:
        """Delete the pictures' points, which have the pictures' ids."""
        store.delete(self.collection, image_ids)

    def orphan_points(self, points: PointBatch) -> list[str]:
        """Return the ids of points whose picture is neither active nor pending."""
        known = self.catalog.images(points.ids)
        living = {image_id for image_id, image in known.items() if image.state in {ImageState.ACTIVE, ImageState.PENDING}}
        return [image_id for image_id in points.ids if image_id not in living]

    def expected(self) -> tuple[int, int]:
        """Return the bounds of the number of points.

        They are active pictures without those of unfinished slices, and active plus pending pictures.
        """
        active = self.catalog.count_images(state=ImageState.ACTIVE)
        waiting = sum(len(self.point_ids(record)) for record in self.catalog.unfinished_slices(self.required))
        return active - waiting, active + self.catalog.count_images(state=ImageState.PENDING)


class CaptionTarget(Target):
    """The collection of captions in one version of the text encoder: one point per caption.

    Args:
        catalog: Knows the captions.
        embeddings: Area of their vectors.
        parts: Names of the parts that hold them.
        encoder: Encoder of the vectors; it is not loaded.
    """

    fields = CAPTION_FIELDS

    def __init__(self, *, catalog: Catalog, embeddings: FileArea, parts: SliceParts, encoder: TextEncoder) -> None:
        super().__init__(
            catalog=catalog,
            embeddings=embeddings,
            alias=CAPTIONS,
            collection=f"{CAPTIONS}-{encoder.version}",
            dim=encoder.dim,
            required=(parts.captions, META_PART),
        )
        self._part = parts.captions

    def write(self, store: VectorStore, slices: Sequence[SliceRecord], points: PointBatch, *, fresh: bool = False) -> None:
        """Upsert the slices' captions, and remove those that their pictures no longer have."""
        if not fresh:
            self.delete(store, [i.image_id for record in slices for i in self.catalog.slice_images(record.slice_id)])
        super().write(store, slices, points)

    def point_ids(self, record: SliceRecord) -> list[str]:
        """Return the ids of the captions of the slice's active pictures, sorted."""
        images = self.catalog.slice_images(record.slice_id, states=(ImageState.ACTIVE,))
        return sorted(_caption_ids(self.catalog, [image.image_id for image in images]))

    def points(self, slices: Sequence[SliceRecord]) -> PointBatch:
        """Read the slices' caption vectors; captions that the catalog no longer has are left out."""
        ids: list[str] = []
        vectors: list[NDArray[np.float32]] = []
        caption_payloads: list[Mapping[str, Any]] = []
        for record in slices:
            receipt = self.catalog.receipts(record.slice_id)[self._part]
            if receipt.rows == 0:
                continue
            images = {i.image_id: i for i in self.catalog.slice_images(record.slice_id, states=(ImageState.ACTIVE,))}
            current = _caption_ids(self.catalog, images)
            table = read_part(self.embeddings, receipt)
            captions: list[str] = table.column("caption_id").to_pylist()
            owners: list[str] = table.column("image_id").to_pylist()
            sources: list[str] = table.column("source").to_pylist()
            rows = [row for row, key in enumerate(captions) if key in current and owners[row] in images]
            fields = dict(zip(images, payloads(list(images.values())), strict=True))
            ids += [captions[row] for row in rows]
            caption_payloads += [{**fields[owners[row]], "image": owners[row], "source": sources[row]} for row in rows]
            vectors.append(_unit(matrix_of(table, "vector")[rows].astype(np.float32)))
        if not ids:
            return PointBatch([], np.empty((0, self.dim), np.float32), [])
        return PointBatch(ids, np.concatenate(vectors), caption_payloads)

    def delete(self, store: VectorStore, image_ids: Sequence[str]) -> None:
        """Delete all caption points of the pictures."""
        if image_ids:
            store.delete_matching(self.collection, Filter(must=(MatchAny("image", tuple(image_ids)),)))

    def orphan_points(self, points: PointBatch) -> list[str]:
        """Return the ids of points whose caption the catalog does not have."""
        known = _caption_ids(self.catalog, {str(payload["image"]) for payload in points.payloads})
        return [key for key in points.ids if key not in known]

    def expected(self) -> tuple[int, int]:
        """Return the bounds of the number of points: captions of active pictures, and those of active and pending pictures.

        The lower bound is 0 while any slice is unfinished.
        """
        active, pending = 0, 0
        captioned = (image_id for image_id, _ in self.catalog.captioned_images())
        while ids := list(islice(captioned, _PAGE)):
            images = self.catalog.images(ids)
            for image_id, records in self.catalog.captions(ids).items():
                count = len({(record.source, record.text) for record in records})
                if images[image_id].state is ImageState.ACTIVE:
                    active += count
                else:
                    pending += count
        unfinished, _ = self.catalog.count_unfinished(self.required)
        return 0 if unfinished else active, active + pending


def payloads(images: Sequence[ImageRecord]) -> list[dict[str, Any]]:
    """Return the filter fields (`PAYLOAD_FIELDS`) of the pictures, one dictionary each."""
    return [
        {"corpus": image.corpus_id, "root": image.root_id, "folders": list(folders_of(image.uri))}
        | ({} if image.taken_at is None else {"taken_at": image.taken_at})
        for image in images
    ]


def _caption_ids(catalog: Catalog, image_ids: Collection[str]) -> set[str]:
    return {
        caption_id(image_id, record.source, record.text)
        for image_id, records in catalog.captions(image_ids).items()
        for record in records
    }


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the rows with length 1 again: stored as half floats they no longer have it exactly."""
    unit: NDArray[np.float32] = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return unit
