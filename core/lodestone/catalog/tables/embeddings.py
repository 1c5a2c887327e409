"""Tables of slices, their Parquet files, the collections they were loaded into, and deletions."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, String, Table, text

from lodestone.catalog.tables.base import ID, NAME, UtcDateTime, metadata, next_seq, parent

# `seq` orders slices by when they were added, independent of the machines' clocks, as it does in `runs`.
# `parts` names the parts that have receipts (see slice_parts.py).
slices = Table(
    "slices",
    metadata,
    Column("slice_id", ID, primary_key=True),
    Column("corpus_id", ID, parent("corpora.corpus_id"), nullable=False, index=True),
    Column("fingerprint", String(64), nullable=False, index=True),
    Column("rows", Integer, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    next_seq("slices"),
    Column("parts", NAME, nullable=False, server_default=text("''")),
    Index(None, "seq", "slice_id"),
    Index(None, "corpus_id", "seq", "slice_id"),
    Index(None, "corpus_id", "parts", "seq", "slice_id"),
)

slice_members = Table(
    "slice_members",
    metadata,
    Column("slice_id", ID, parent("slices.slice_id"), primary_key=True),
    Column("image_id", ID, parent("images.image_id"), primary_key=True, index=True),
    Column("position", Integer, nullable=False),
)

receipts = Table(
    "receipts",
    metadata,
    Column("slice_id", ID, parent("slices.slice_id"), primary_key=True),
    Column("part", String(128), primary_key=True),
    Column("path", NAME, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("checksum", String(64), nullable=False),
    Column("seconds", Float, nullable=False),
)

loads = Table(
    "loads",
    metadata,
    Column("collection", String(255), primary_key=True),
    Column("slice_id", ID, parent("slices.slice_id"), primary_key=True, index=True),
    Column("loaded_at", UtcDateTime, nullable=False),
)

# Slices whose files hold rows of removed pictures. A row goes with its slice, when the files are deleted.
erasures = Table(
    "erasures",
    metadata,
    Column("slice_id", ID, parent("slices.slice_id"), primary_key=True),
)

# A tombstone outlives its image's row (a picture moved onto a gone one's path replaces it), so it has no key into images.
tombstones = Table(
    "tombstones",
    metadata,
    Column("image_id", ID, primary_key=True),
    Column("corpus_id", ID, parent("corpora.corpus_id"), nullable=False, index=True),
    Column("created_at", UtcDateTime, nullable=False),
)

# Tombstones that each collection has carried out. A new tombstone of the same picture starts without rows here.
deletions = Table(
    "deletions",
    metadata,
    Column("collection", String(255), primary_key=True),
    Column("image_id", ID, parent("tombstones.image_id"), primary_key=True, index=True),
)
