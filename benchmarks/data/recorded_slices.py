"""Made-up pictures in finished slices of a catalog, as an index run leaves them: for benchmarks of what follows embedding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import ImageRecord, ImageState, Receipt, SliceRecord
from lodestone.embeddings.slices import WrittenPart, fingerprint, write_part
from lodestone.files.area import FileArea

SLICE: Final = 256

MakeTables = Callable[[Sequence[ImageRecord]], Mapping[str, pa.Table]]
"""Returns part -> table of a slice's pictures."""


def record_slices(
    catalog: Catalog,
    area: FileArea,
    make_tables: MakeTables,
    *,
    pictures: int,
    slice_rows: int = SLICE,
    shared: Mapping[str, str] | None = None,
) -> None:
    """Add pictures to the corpus `bench`, write the parts of their slices, and record the receipts.

    Args:
        catalog: The catalog.
        area: Area of the embeddings.
        make_tables: Makes the parts of a slice.
        pictures: Number of pictures.
        slice_rows: Pictures of a slice.
        shared: Further part -> part whose file its receipts name, too.
    """
    corpus = catalog.ensure_corpus("bench")
    root = catalog.ensure_root(corpus.corpus_id, "/bench")
    for start in range(0, pictures, slice_rows):
        uris = [f"{row % 50:02}/{row:08}.jpg" for row in range(start, min(start + slice_rows, pictures))]
        ids = catalog.mint_image_ids(corpus.corpus_id, root.name, uris)
        images = [
            ImageRecord(ids[uri], corpus.corpus_id, root.root_id, uri, f"{start + row:064x}", 1, 0, ImageState.ACTIVE)
            for row, uri in enumerate(uris)
        ]
        catalog.add_images(images)
        fp = fingerprint([(image.image_id, image.hash) for image in images], "bench")
        record = SliceRecord(fp, corpus.corpus_id, fp, len(images), datetime.now(UTC))
        catalog.add_slices([(record, [image.image_id for image in images])])
        written = {part: write_part(area, corpus.corpus_id, fp, part, table) for part, table in make_tables(images).items()}
        written |= {part: written[other] for part, other in (shared or {}).items()}
        catalog.record_receipts([_receipt(fp, part, file) for part, file in written.items()])


def _receipt(slice_id: str, part: str, written: WrittenPart) -> Receipt:
    return Receipt(slice_id, part, written.path, written.rows, written.size, written.checksum, 0.0)
