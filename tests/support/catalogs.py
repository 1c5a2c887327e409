"""Small catalogs: records with sensible defaults, for tests."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from blake3 import blake3

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import Corpus, ImageRecord, ImageState, Receipt, Root, SliceRecord

_START = datetime(2024, 5, 1, tzinfo=UTC)


def make_root(catalog: Catalog, corpus: str = "holidays", path: str = "/pictures/holidays") -> tuple[Corpus, Root]:
    """A corpus with one root."""
    found = catalog.ensure_corpus(corpus)
    return found, catalog.ensure_root(found.corpus_id, path)


def picture(root: Root, uri: str, **changes: Any) -> ImageRecord:
    """A pending picture; its hash is that of its uri."""
    record = ImageRecord(
        image_id=Catalog.mint_image_id(root.corpus_id, root.name, uri),
        corpus_id=root.corpus_id,
        root_id=root.root_id,
        uri=uri,
        hash=str(blake3(uri.encode("utf-8", "surrogatepass")).hexdigest()),
        size=1000,
        mtime_ns=1_700_000_000_123_456_789,
        state=ImageState.PENDING,
    )
    return replace(record, **changes)


def plan_slice(catalog: Catalog, images: list[ImageRecord], *, minute: int = 0) -> SliceRecord:
    """Make one slice of these pictures; `minute` orders slices by age."""
    record = SliceRecord(
        slice_id=str(uuid4()),
        corpus_id=images[0].corpus_id,
        fingerprint=uuid4().hex,
        rows=len(images),
        created_at=_START + timedelta(minutes=minute),
    )
    catalog.add_slices([(record, [image.image_id for image in images])])
    return record


def embed_slice(catalog: Catalog, images: list[ImageRecord], *, minute: int = 0) -> SliceRecord:
    """Plan a slice, give it the receipt of its meta part and make its pictures active."""
    record = plan_slice(catalog, images, minute=minute)
    catalog.record_receipts([receipt(record)])
    members = catalog.images([image.image_id for image in images]).values()
    catalog.update_images([replace(image, state=ImageState.ACTIVE, width=640, height=480) for image in members])
    return record


def receipt(record: SliceRecord, part: str = "meta", **changes: Any) -> Receipt:
    """Proof of a finished part."""
    path = f"{record.corpus_id}/{record.fingerprint[:2]}/{record.fingerprint}.{part}.parquet"
    return replace(Receipt(record.slice_id, part, path, record.rows, 4096, "0" * 64, 0.5), **changes)
