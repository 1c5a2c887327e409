"""Which collections are there, and how do their points come out of catalog and Parquet files?

One for each (space, version), of one point a picture, and one of captions. Making points runs no model: they are projected from
stored outputs.
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
from lodestone.store.base import Filter, MatchAny, PointBatch, VectorStore
from lodestone.text_encoders.base import TextEncoder
from lodestone_schemas.collections import CAPTION_FIELDS, PAYLOAD_FIELDS, FieldKind

CAPTIONS_ALIAS: Final = "captions"
_PAGE: Final = 2048


class Target(ABC):
    """One collection, and how its points come out of catalog and Parquet files."""

    fields: ClassVar[tuple[tuple[str, FieldKind], ...]]
    promoted = True  # its alias shall point at it

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
        """The points of the slices' pictures that can be found now."""

    @abstractmethod
    def delete(self, store: VectorStore, image_ids: Sequence[str]) -> None:
        """Remove all points of these pictures."""

    @abstractmethod
    def orphan_points(self, points: PointBatch) -> list[str]:
        """Ids of those points that the catalog does not know."""

    @abstractmethod
    def expected(self) -> tuple[int, int]:
        """How many points there must be at least and may be at most; they differ while pictures wait to be embedded again."""

    @abstractmethod
    def point_ids(self, record: SliceRecord) -> list[str]:
        """Ids of the points that the collection should have of a slice, by the catalog alone."""

    def warm_up(self) -> None:  # noqa: B027 - most need nothing
        """Load what `points` needs. Once, before several threads call it."""

    def write(
        self,
        store: VectorStore,
        slices: Sequence[SliceRecord],  # noqa: ARG002 - for those that have more than one point a picture
        points: PointBatch,
        *,
        fresh: bool = False,  # noqa: ARG002
    ) -> None:
        """Have the collection hold these points of the slices, durably.

        Args:
            store: Where the collection is.
            slices: Whose points they are.
            points: What `points` made of the slices.
            fresh: The collection has no older points of these slices.
        """
        if len(points):
            store.upsert(self.collection, points)


class SpaceTarget(Target):
    """The collection of one (space, version).

    Args:
        catalog: Which pictures there are.
        embeddings: Where their outputs are.
        parts: Names of the parts that hold them.
        projection: Makes vectors of them.
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
        """See `Target.points`."""
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
        """See `Target.point_ids`."""
        return [image.image_id for image in self.catalog.slice_images(record.slice_id, states=(ImageState.ACTIVE,))]

    def warm_up(self) -> None:
        """See `Target.warm_up`."""
        self._projection.warm_up()

    def delete(self, store: VectorStore, image_ids: Sequence[str]) -> None:
        """See `Target.delete`."""
        store.delete(self.collection, image_ids)

    def orphan_points(self, points: PointBatch) -> list[str]:
        """See `Target.orphan_points`."""
        known = self.catalog.images(points.ids)
        living = {image_id for image_id, image in known.items() if image.state in {ImageState.ACTIVE, ImageState.PENDING}}
        return [image_id for image_id in points.ids if image_id not in living]

    def expected(self) -> tuple[int, int]:
        """See `Target.expected`."""
        active = self.catalog.count_images(state=ImageState.ACTIVE)
        waiting = sum(len(self.point_ids(record)) for record in self.catalog.unfinished_slices(self.required))
        return active - waiting, active + self.catalog.count_images(state=ImageState.PENDING)


class CaptionTarget(Target):
    """The collection of captions in one version of the text encoder: one point a caption.

    Args:
        catalog: Which captions there are.
        embeddings: Where their vectors are.
        parts: Names of the parts that hold them.
        encoder: Whose vectors they are; is not loaded.
    """

    fields = CAPTION_FIELDS

    def __init__(self, *, catalog: Catalog, embeddings: FileArea, parts: SliceParts, encoder: TextEncoder) -> None:
        super().__init__(
            catalog=catalog,
            embeddings=embeddings,
            alias=CAPTIONS_ALIAS,
            collection=f"{CAPTIONS_ALIAS}-{encoder.version}",
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
        """See `Target.point_ids`."""
        images = self.catalog.slice_images(record.slice_id, states=(ImageState.ACTIVE,))
        return sorted(_caption_ids(self.catalog, [image.image_id for image in images]))

    def points(self, slices: Sequence[SliceRecord]) -> PointBatch:
        """See `Target.points`."""
        ids: list[str] = []
        vectors: list[NDArray[np.float32]] = []
        found: list[Mapping[str, Any]] = []
        for record in slices:
            receipt = self.catalog.receipts(record.slice_id)[self._part]
            if receipt.rows == 0:
                continue
            images = {i.image_id: i for i in self.catalog.slice_images(record.slice_id, states=(ImageState.ACTIVE,))}
            current = _caption_ids(self.catalog, images)
            table = read_part(self.embeddings, receipt)
            captions: list[str] = table.column("caption_id").to_pylist()
            of: list[str] = table.column("image_id").to_pylist()
            sources: list[str] = table.column("source").to_pylist()
            rows = [row for row, key in enumerate(captions) if key in current and of[row] in images]
            fields = dict(zip(images, payloads(list(images.values())), strict=True))
            ids += [captions[row] for row in rows]
            found += [{**fields[of[row]], "image": of[row], "source": sources[row]} for row in rows]
            vectors.append(_unit(matrix_of(table, "vector")[rows].astype(np.float32)))
        if not ids:
            return PointBatch([], np.empty((0, self.dim), np.float32), [])
        return PointBatch(ids, np.concatenate(vectors), found)

    def delete(self, store: VectorStore, image_ids: Sequence[str]) -> None:
        """See `Target.delete`."""
        if image_ids:
            store.delete_matching(self.collection, Filter(must=(MatchAny("image", tuple(image_ids)),)))

    def orphan_points(self, points: PointBatch) -> list[str]:
        """See `Target.orphan_points`."""
        known = _caption_ids(self.catalog, {str(payload["image"]) for payload in points.payloads})
        return [key for key in points.ids if key not in known]

    def expected(self) -> tuple[int, int]:
        """See `Target.expected`."""
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
    """Filter fields of pictures (`PAYLOAD_FIELDS`)."""
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
    """Half floats are not quite of length 1 any more."""
    unit: NDArray[np.float32] = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return unit
