"""Which embeddings files does the catalog believe in that are missing or cut? What is found is embedded again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lodestone.embeddings.slices import read_part
from lodestone.errors import EmbeddingsDamagedError

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.records import Receipt
    from lodestone.files.area import FileArea


def damaged_parts(catalog: Catalog, area: FileArea, corpus_id: str, *, deep: bool = False) -> Iterator[tuple[Receipt, str]]:
    """Receipts of slices in use whose file is not what was written, each with what is wrong; streamed.

    Args:
        catalog: What should be there.
        area: Where.
        corpus_id: Of which corpus.
        deep: Read every file and compare checksums; else sizes alone, at some microseconds a file in a folder.

    Raises:
        SourceError: the bucket cannot be read.
    """
    for receipt in catalog.live_receipts(corpus_id):
        size = area.size(receipt.path)
        if size != receipt.size:
            yield receipt, "is missing" if size is None else f"has {size} bytes instead of {receipt.size}"
        elif deep:
            try:
                read_part(area, receipt, verify=True)
            except EmbeddingsDamagedError as error:
                yield receipt, error.message


def forget_damaged(catalog: Catalog, area: FileArea, corpus_id: str) -> int:
    """Have an index run make again what is missing or cut in a local folder; returns how many files.

    In a bucket each look is a request: there, damage is met when a file is read, or by `lodestone embeddings verify`.
    """
    if area.folder is None:
        return 0
    damaged = [receipt for receipt, _ in damaged_parts(catalog, area, corpus_id)]
    for receipt in damaged:
        catalog.forget_receipts(receipt.slice_id, [receipt.part])
    return len(damaged)
