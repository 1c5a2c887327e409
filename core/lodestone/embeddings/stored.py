"""Which stored outputs do the findable pictures of a slice have?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import OutputKey
from lodestone.catalog.records import ImageRecord, ImageState, Receipt, SliceRecord
from lodestone.embeddings.slices import read_part
from lodestone.embeddings.tables import matrix_of
from lodestone.files.area import FileArea

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog


@dataclass(frozen=True, slots=True)
class StoredOutputs:
    """Reads some outputs of slices from their Parquet files.

    Attributes:
        catalog: Knows members and receipts.
        embeddings: The area of Parquet files.
        parts: Backbone name -> name of the part that holds its outputs in the version in use.
        keys: The outputs to read.
    """

    catalog: Catalog
    embeddings: FileArea
    parts: Mapping[str, str]
    keys: Sequence[OutputKey]

    @property
    def required(self) -> tuple[str, ...]:
        """Parts that a slice must have, each once."""
        return tuple(self.parts[name] for name in dict.fromkeys(key.backbone for key in self.keys))

    def of_slice(self, record: SliceRecord) -> tuple[list[ImageRecord], dict[OutputKey, NDArray[np.float16]]]:
        """The slice's findable pictures, and their rows of each output in the same order: (n, dim) float16.

        A slice that is not embedded yet has no pictures here.

        Raises:
            EmbeddingsDamagedError: a file is missing or damaged.
        """
        receipts = self.catalog.receipts(record.slice_id)
        return self.read(record, receipts) if all(part in receipts for part in self.required) else ([], {})

    def read(
        self, record: SliceRecord, receipts: Mapping[str, Receipt]
    ) -> tuple[list[ImageRecord], dict[OutputKey, NDArray[np.float16]]]:
        """The same of a slice that is embedded, by its receipts.

        Raises:
            KeyError: it is not.
            EmbeddingsDamagedError: a file is missing or damaged.
        """
        tables = {
            backbone: read_part(
                self.embeddings,
                receipts[self.parts[backbone]],
                columns=["image_id", *(key.output for key in self.keys if key.backbone == backbone)],
            )
            for backbone in dict.fromkeys(key.backbone for key in self.keys)
        }
        ids: dict[str, list[str]] = {backbone: table.column("image_id").to_pylist() for backbone, table in tables.items()}
        rows = {backbone: {image_id: row for row, image_id in enumerate(column)} for backbone, column in ids.items()}
        active = self.catalog.slice_images(record.slice_id, states=(ImageState.ACTIVE,))
        images = [image for image in active if all(image.image_id in known for known in rows.values())]
        wanted = [image.image_id for image in images]
        outputs: dict[OutputKey, NDArray[np.float16]] = {}
        for key in self.keys:
            matrix = matrix_of(tables[key.backbone], key.output)
            if ids[key.backbone] != wanted:  # pictures have left the slice since, or their rows stand in another order
                known = rows[key.backbone]
                matrix = matrix[np.array([known[image_id] for image_id in wanted], np.intp)]
            outputs[key] = matrix
        return images, outputs
