"""Groups of slices that are loaded at once, as values: what the catalog says of their pictures, and how points are made.

Both are picklable, and no catalog is needed to make points, so a group can be loaded by another process on another machine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.catalog.records import Receipt
from lodestone.embeddings.slices import read_part
from lodestone.embeddings.stored import read_outputs
from lodestone.embeddings.tables import matrix_of
from lodestone.files.area import FileArea
from lodestone.indexing.parts.registry import further_parts
from lodestone.spaces.base import Projection
from lodestone.store.base import Payload, PointBatch


@dataclass(frozen=True, slots=True)
class PlannedSlice:
    """A slice as the catalog described it when its loading began.

    Attributes:
        slice_id: Id of the slice.
        receipts: Part name -> receipt, of all its finished parts.
        image_ids: Its active pictures (n), in row order.
        payloads: Filter fields of each of them (n), as far as the catalog knows them.
        captions: Ids of the captions that these pictures have; None in a collection with one point per picture.
        cleared: Pictures whose older points are removed before the new ones are written, because there may be fewer now.
        described: Ids of the captions of these pictures, in a collection of one point per picture that is made of them too.
    """

    slice_id: str
    receipts: Mapping[str, Receipt]
    image_ids: Sequence[str]
    payloads: Sequence[Payload]
    captions: frozenset[str] | None = None
    cleared: Sequence[str] = ()
    described: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LoadGroup:
    """Slices whose points are made and upserted together."""

    collection: str
    slices: tuple[PlannedSlice, ...]

    @property
    def slice_ids(self) -> list[str]:
        """Return the ids of the slices."""
        return [planned.slice_id for planned in self.slices]

    @property
    def touched(self) -> set[str]:
        """Return the ids of all pictures whose points the group writes or removes."""
        return {image_id for planned in self.slices for image_id in (*planned.image_ids, *planned.cleared)}

    @property
    def cleared(self) -> list[str]:
        """Return the ids of the pictures whose older points are removed first."""
        return [image_id for planned in self.slices for image_id in planned.cleared]

    @property
    def point_ids(self) -> list[str]:
        """Return the ids of all points that the group may have."""
        return [
            point_id
            for planned in self.slices
            for point_id in (planned.image_ids if planned.captions is None else planned.captions)
        ]


class PointMaker(ABC):
    """Makes the points of a collection from the Parquet files of its slices; picklable, and safe to use from several threads.

    Attributes:
        dim: Length of the vectors.
    """

    dim: int

    @abstractmethod
    def points(self, embeddings: FileArea, group: LoadGroup) -> PointBatch:
        """Return the points of a group.

        Raises:
            EmbeddingsDamagedError: a file is missing or damaged.
        """


@dataclass(frozen=True, slots=True)
class PicturePoints(PointMaker):
    """Makes one point per picture: the projection of its stored outputs.

    Attributes:
        projection: The projection, whose weights are loaded.
        parts: Backbone name -> name of the part that holds its outputs.
        dim: Length of the vectors.
    """

    projection: Projection
    parts: Mapping[str, str]
    dim: int

    def points(self, embeddings: FileArea, group: LoadGroup) -> PointBatch:
        """Read the stored outputs of the group and project them; pictures without a row in the files are left out."""
        ids: list[str] = []
        payloads: list[Payload] = []
        columns: dict[OutputKey, list[NDArray[np.float16]]] = {key: [] for key in self.projection.requires}
        for planned in group.slices:
            kept, outputs = read_outputs(embeddings, planned.receipts, self.parts, self.projection.requires, planned.image_ids)
            ids += [planned.image_ids[place] for place in kept]
            fields = payloads_of(embeddings, planned)
            payloads += [fields[place] for place in kept]
            for key, rows in outputs.items():
                columns[key].append(rows)
        if not ids:
            return _no_points(self.dim)
        joined = BackboneOutputs({key: np.concatenate(rows) for key, rows in columns.items()})
        return PointBatch(ids, self.projection.project(joined), payloads)


@dataclass(frozen=True, slots=True)
class CaptionPoints(PointMaker):
    """Makes one point per caption: its stored vector, with the filter fields of its picture.

    Attributes:
        part: Name of the part that holds the vectors.
        dim: Their length.
    """

    part: str
    dim: int

    def points(self, embeddings: FileArea, group: LoadGroup) -> PointBatch:
        """Read the group's caption vectors; captions that the catalog no longer has are left out."""
        ids: list[str] = []
        vectors: list[NDArray[np.float32]] = []
        payloads: list[Payload] = []
        for planned in group.slices:
            receipt, current = planned.receipts[self.part], planned.captions
            if receipt.rows == 0 or not current:
                continue
            table = read_part(embeddings, receipt)
            captions: list[str] = table.column("caption_id").to_pylist()
            owners: list[str] = table.column("image_id").to_pylist()
            sources: list[str] = table.column("source").to_pylist()
            fields = dict(zip(planned.image_ids, payloads_of(embeddings, planned), strict=True))
            rows = [row for row, key in enumerate(captions) if key in current and owners[row] in fields]
            ids += [captions[row] for row in rows]
            payloads += [{**fields[owners[row]], "image": owners[row], "source": sources[row]} for row in rows]
            vectors.append(_unit(matrix_of(table, "vector")[rows].astype(np.float32)))
        return PointBatch(ids, np.concatenate(vectors), payloads) if ids else _no_points(self.dim)


def payloads_of(embeddings: FileArea, planned: PlannedSlice) -> Sequence[Payload]:
    """Return the filter fields of a slice's pictures: those that the catalog knows, and those in the files of further parts.

    Raises:
        EmbeddingsDamagedError: a file is missing or damaged.
    """
    payloads = planned.payloads
    for part in further_parts():
        receipt = planned.receipts.get(part.file) if part.fields else None
        if receipt is not None:
            added = part.payloads(read_part(embeddings, receipt))
            payloads = [{**held, **added.get(image_id, {})} for image_id, held in zip(planned.image_ids, payloads, strict=True)]
    return payloads


def _no_points(dim: int) -> PointBatch:
    return PointBatch([], np.empty((0, dim), np.float32), [])


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the rows with length 1 again: stored as half floats they no longer have it exactly."""
    unit: NDArray[np.float32] = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return unit
