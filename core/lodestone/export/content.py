"""Content of an exported slice: the vectors of its pictures, projected from stored outputs, and their fields of parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import BackboneOutputs
from lodestone.embeddings.stored import read_outputs
from lodestone.export.tasks import ExportedSlice
from lodestone.files.area import FileArea
from lodestone.indexing.sync.load_groups import PlannedSlice, payloads_of
from lodestone.spaces.base import Projection


@dataclass(frozen=True, slots=True)
class SliceVectors:
    """Vectors of a slice's pictures in one space.

    Attributes:
        rows: (n, dim) of the type that is exported; zeros where there is none.
        present: (n,) True for the pictures that have one.
    """

    rows: NDArray[np.floating[Any]]
    present: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ContentReader:
    """Reads the stored content of slices. Picklable, and safe to use from several threads.

    Attributes:
        embeddings: Area of the Parquet files.
        projections: Space -> its version, with weights loaded.
        parts: Backbone -> part that holds its outputs.
        dtype: Name of the type of vectors' numbers.
        reads_fields: Whether fields of further parts are read.
    """

    embeddings: FileArea
    projections: Mapping[str, Projection]
    parts: Mapping[str, str]
    dtype: str
    reads_fields: bool

    def vectors(self, one: ExportedSlice) -> dict[str, SliceVectors]:
        """Return space -> vectors of the slice's pictures.

        Raises:
            EmbeddingsDamagedError: a file is missing or damaged.
        """
        return {name: self._vectors(one, projection) for name, projection in self.projections.items()}

    def fields(self, one: ExportedSlice) -> Sequence[Mapping[str, Any]]:
        """Return the fields of further parts of each of the slice's pictures (n).

        Raises:
            EmbeddingsDamagedError: a file is missing or damaged.
        """
        if not self.reads_fields:
            return [{}] * len(one.pictures)
        return payloads_of(self.embeddings, PlannedSlice("", one.receipts, _ids(one), [{}] * len(one.pictures)))

    def _vectors(self, one: ExportedSlice, projection: Projection) -> SliceVectors:
        count = len(one.pictures)
        rows = np.zeros((count, projection.dim), self.dtype)
        present = np.zeros(count, np.bool_)
        if all(self.parts[key.backbone] in one.receipts for key in projection.requires):
            kept, outputs = read_outputs(self.embeddings, one.receipts, self.parts, projection.requires, _ids(one))
            places = np.asarray(kept, np.intp)
            if len(places):
                rows[places] = projection.project(BackboneOutputs(outputs))
                present[places] = True
        return SliceVectors(rows, present)


def _ids(one: ExportedSlice) -> list[str]:
    return [picture.image.image_id for picture in one.pictures]
