"""Tables of corpora, roots and pictures with their captions, tags and copies, and of slices, their files and deletions."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
    true,
)

from lodestone.catalog.tables.base import ID, NAME, UtcDateTime, metadata, next_seq, parent

corpora = Table(
    "corpora",
    metadata,
    Column("corpus_id", ID, primary_key=True),
    Column("name", NAME, nullable=False, unique=True),
    Column("created_at", UtcDateTime, nullable=False),
)

roots = Table(
    "roots",
    metadata,
    Column("root_id", ID, primary_key=True),
    Column("corpus_id", ID, parent("corpora.corpus_id"), nullable=False),
    Column("name", NAME, nullable=False),
    Column("path", NAME, nullable=False),
    Column("kind", String(16), nullable=False, server_default="folder"),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("watched", Boolean, nullable=False, server_default=false()),
    Column("scanned_at", UtcDateTime),
    Column("exclude", Text, nullable=False, server_default=text("''")),
    UniqueConstraint("corpus_id", "name"),
    UniqueConstraint("corpus_id", "path"),
)

containers = Table(
    "containers",
    metadata,
    Column("root_id", ID, parent("roots.root_id"), primary_key=True),
    Column("uri", NAME, primary_key=True),
    Column("token", String(64), nullable=False),
    Column("items", BigInteger, nullable=False),
)

_UNREAD = text("metadata_version = 0 AND state = 'active'")  # pictures whose headers the next index run reads

_INCOMPLETE = text("decoded_share IS NOT NULL")  # few, and counted for every overview

# Columns stand in the order of `ImageRecord`'s fields.
images = Table(
    "images",
    metadata,
    Column("image_id", ID, primary_key=True),
    Column("corpus_id", ID, parent("corpora.corpus_id"), nullable=False),
    Column("root_id", ID, parent("roots.root_id"), nullable=False),
    Column("uri", NAME, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("mtime_ns", BigInteger, nullable=False),
    Column("state", String(12), nullable=False),
    Column("slice_id", ID, parent("slices.slice_id", on_delete="SET NULL"), index=True),
    Column("width", Integer, nullable=False),
    Column("height", Integer, nullable=False),
    Column("format", String(32), nullable=False),
    Column("taken_at", BigInteger),
    Column("latitude", Float),
    Column("longitude", Float),
    Column("position", BigInteger),
    Column("utc_offset_minutes", Integer),
    Column("taken_subsec_ms", Integer),
    Column("camera_make", Text),
    Column("camera_model", Text),
    Column("metadata_version", Integer, nullable=False, server_default="0"),
    Column("taken_precision", String(8)),
    Column("taken_source", String(16)),
    Column("taken_zone", String(8)),
    Column("decoded_share", Float),
    UniqueConstraint("root_id", "uri"),
    # Migrations 0007 and 0012 set the conditions on PostgreSQL too. Named here, it would load that dialect in every process.
    Index("ix_images_unread_metadata", "root_id", "uri", sqlite_where=_UNREAD),
    Index("ix_images_incomplete", "corpus_id", sqlite_where=_INCOMPLETE),
    Index(None, "corpus_id", "state"),
    Index(None, "hash", "corpus_id"),
)

captions = Table(
    "captions",
    metadata,
    Column("image_id", ID, parent("images.image_id"), primary_key=True),
    Column("source", String(32), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("text", Text, nullable=False),
)

tags = Table(
    "tags",
    metadata,
    Column("tag_id", ID, primary_key=True),  # computed from picture, source and text, so the same tag again is the same row
    Column("image_id", ID, parent("images.image_id"), nullable=False, index=True),
    Column("corpus_id", ID, parent("corpora.corpus_id"), nullable=False, index=True),
    Column("text", Text, nullable=False),
    Column("source", String(32), nullable=False),
    Column("score", Float),
    Column("query_id", String(64)),
    Column("created_at", UtcDateTime, nullable=False, index=True),
)

# Pictures whose tags the sparse collection lacks. Such a picture may be gone, so there is no foreign key into images.
tag_outbox = Table(
    "tag_outbox",
    metadata,
    Column("image_id", ID, primary_key=True),
    Column("seq", BigInteger, nullable=False, index=True),
)

# Pictures that are copies of each other: of equal content (exact), or within a distance (near). One row a picture and kind.
duplicates = Table(
    "duplicates",
    metadata,
    Column("image_id", ID, parent("images.image_id"), primary_key=True),
    Column("kind", String(8), primary_key=True),
    Column("corpus_id", ID, parent("corpora.corpus_id"), nullable=False, index=True),
    Column("group_id", ID, nullable=False, index=True),
    Column("distance", Float, nullable=False),
)


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
