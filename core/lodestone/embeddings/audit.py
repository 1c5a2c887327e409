"""Audit of the embeddings files against the catalog's receipts.

A file that is missing or cut loses its receipt, so that the next index run embeds its slice again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from lodestone.embeddings.slices import read_part
from lodestone.errors import EmbeddingsDamagedError

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.records import Receipt
    from lodestone.files.area import FileArea


def damaged_parts(
    catalog: Catalog,
    area: FileArea,
    corpus_id: str,
    *,
    deep: bool = False,
    report_progress: Callable[[int], None] = lambda _done: None,
) -> Iterator[tuple[Receipt, str]]:
    """Yield the receipts of slices in use whose file is not what was written, each with what is wrong.

    Receipts are streamed, so memory does not grow with the corpus.

    Args:
        catalog: The catalog that holds the receipts.
        area: The area that holds the embeddings files.
        corpus_id: The corpus to check.
        deep: Whether to read every file and compare checksums. Otherwise only sizes are compared, which takes some microseconds
            per file in a local folder.
        report_progress: Called with the number of files checked so far.

    Raises:
        SourceError: the bucket cannot be read.
    """
    for number, receipt in enumerate(catalog.live_receipts(corpus_id)):
        report_progress(number)
        size = area.size(receipt.path)
        if size != receipt.size:
            yield receipt, "is missing" if size is None else f"has {size} bytes instead of {receipt.size}"
        elif deep:
            try:
                read_part(area, receipt, verify=True)
            except EmbeddingsDamagedError as error:
                yield receipt, error.message


def forget_damaged(catalog: Catalog, area: FileArea, corpus_id: str) -> int:
    """Forget the receipts of files that are missing or cut in a local folder, and return how many there were.

    The next index run makes these files again. In a bucket each look is a request, so nothing is checked there: damage is found
    when a file is read, or by `lodestone embeddings verify`.
    """
    if area.folder is None:
        return 0
    damaged = [receipt for receipt, _ in damaged_parts(catalog, area, corpus_id)]
    for receipt in damaged:
        catalog.forget_receipts(receipt.slice_id, [receipt.part])
    return len(damaged)
