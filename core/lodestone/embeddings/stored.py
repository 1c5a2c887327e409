"""Reader of the stored backbone outputs of a slice's active pictures."""

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
        catalog: The catalog that knows the slices' pictures and receipts.
        embeddings: The area that holds the Parquet files.
        parts: Backbone name -> name of the part that holds its outputs in the version in use.
        keys: The outputs to read.
    """

    catalog: Catalog
    embeddings: FileArea
    parts: Mapping[str, str]
    keys: Sequence[OutputKey]

    @property
    def required(self) -> tuple[str, ...]:
        """Return the parts that a slice must have, each once."""
        return tuple(self.parts[name] for name in dict.fromkeys(key.backbone for key in self.keys))

    def of_slice(self, record: SliceRecord) -> tuple[list[ImageRecord], dict[OutputKey, NDArray[np.float16]]]:
        """Return the slice's active pictures and their rows of each output, in the same order: (n, dim) float16.

        A slice that is not embedded yet gives no pictures.

        Raises:
            EmbeddingsDamagedError: a file is missing or damaged.
        """
        receipts = self.catalog.receipts(record.slice_id)
        return self.read(record, receipts) if all(part in receipts for part in self.required) else ([], {})

    def read(
        self, record: SliceRecord, receipts: Mapping[str, Receipt]
    ) -> tuple[list[ImageRecord], dict[OutputKey, NDArray[np.float16]]]:
        """Return what `of_slice` returns, for a slice that is embedded and whose receipts the caller has.

        Args:
            record: The slice.
            receipts: Part name -> receipt.

        Raises:
            KeyError: a required part has no receipt.
            EmbeddingsDamagedError: a file is missing or damaged.
        """
        active = self.catalog.slice_images(record.slice_id, states=(ImageState.ACTIVE,))
        kept, outputs = read_outputs(self.embeddings, receipts, self.parts, self.keys, [image.image_id for image in active])
        return [active[place] for place in kept], outputs


def read_outputs(
    embeddings: FileArea,
    receipts: Mapping[str, Receipt],
    parts: Mapping[str, str],
    keys: Sequence[OutputKey],
    image_ids: Sequence[str],
) -> tuple[Sequence[int], dict[OutputKey, NDArray[np.float16]]]:
    """Return the places in `image_ids` of the pictures that have a row in every file, and their rows of each output.

    Args:
        embeddings: The area that holds the Parquet files.
        receipts: Part name -> receipt of the slice.
        parts: Backbone name -> name of the part that holds its outputs.
        keys: The outputs to read.
        image_ids: The slice's pictures.

    Returns:
        The places, ascending, and output -> (n, dim) float16 in the same order.

    Raises:
        KeyError: a required part has no receipt.
        EmbeddingsDamagedError: a file is missing or damaged.
    """
    tables = {
        backbone: read_part(
            embeddings,
            receipts[parts[backbone]],
            columns=["image_id", *(key.output for key in keys if key.backbone == backbone)],
        )
        for backbone in dict.fromkeys(key.backbone for key in keys)
    }
    ids: dict[str, list[str]] = {backbone: table.column("image_id").to_pylist() for backbone, table in tables.items()}
    if all(column == image_ids for column in ids.values()):  # no picture has left the slice
        return range(len(image_ids)), {key: matrix_of(tables[key.backbone], key.output) for key in keys}
    rows = {backbone: {image_id: row for row, image_id in enumerate(column)} for backbone, column in ids.items()}
    kept = [place for place, image_id in enumerate(image_ids) if all(image_id in row_of for row_of in rows.values())]
    chosen = {backbone: np.array([row_of[image_ids[place]] for place in kept], np.intp) for backbone, row_of in rows.items()}
    return kept, {key: matrix_of(tables[key.backbone], key.output)[chosen[key.backbone]] for key in keys}
