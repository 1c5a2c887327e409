"""How are the catalog's facts laid out in SQL? Tables that SQLite and PostgreSQL understand alike.

Ids are 36-character strings. Times are stored in UTC and come back aware. `images.uri` and other file names compare by code
point (case-sensitive; NFC and NFD differ). Deleting a corpus deletes everything under it (ON DELETE CASCADE).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    false,
    text,
    true,
)
from sqlalchemy.engine import Dialect

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime in UTC; SQLite keeps no time zone, so it is put back on the way out."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 (SQLAlchemy's signature)
        """Convert to UTC; a naive time is a bug of the caller and raises `ValueError`."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"naive datetime {value!r}: the catalog takes aware ones")
        return value.astimezone(UTC)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:  # noqa: ANN401, ARG002 (SQLAlchemy's signature)
        """Give the time zone back."""
        if value is None:
            return None
        found: datetime = value
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


_ID = String(36)
# Byte order everywhere: PostgreSQL would otherwise sort (and page) by its locale. SQLite's default is byte order already.
_NAME = Text().with_variant(Text(collation="C"), "postgresql")


def _parent(column: str, *, on_delete: str = "CASCADE") -> ForeignKey:
    return ForeignKey(column, ondelete=on_delete)


def _next_seq(table: str) -> Column[int]:
    """One more than the highest so far; who inserts several rows at once says it, or they would share one."""
    one_more = text(f"(SELECT coalesce(max(seq), 0) + 1 FROM {table})")  # noqa: S608 (a name from below)
    return Column("seq", BigInteger, nullable=False, default=one_more, server_default="0")


corpora = Table(
    "corpora",
    metadata,
    Column("corpus_id", _ID, primary_key=True),
    Column("name", _NAME, nullable=False, unique=True),
    Column("created_at", UtcDateTime, nullable=False),
)

roots = Table(
    "roots",
    metadata,
    Column("root_id", _ID, primary_key=True),
    Column("corpus_id", _ID, _parent("corpora.corpus_id"), nullable=False),
    Column("name", _NAME, nullable=False),
    Column("path", _NAME, nullable=False),
    Column("kind", String(16), nullable=False, server_default="folder"),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("watched", Boolean, nullable=False, server_default=false()),
    Column("scanned_at", UtcDateTime),
    UniqueConstraint("corpus_id", "name"),
    UniqueConstraint("corpus_id", "path"),
)

containers = Table(
    "containers",
    metadata,
    Column("root_id", _ID, _parent("roots.root_id"), primary_key=True),
    Column("uri", _NAME, primary_key=True),
    Column("token", String(64), nullable=False),
    Column("items", BigInteger, nullable=False),
)

# `seq` says which slice was added first, whatever the clocks of the machines said; so it does in `runs`.
slices = Table(
    "slices",
    metadata,
    Column("slice_id", _ID, primary_key=True),
    Column("corpus_id", _ID, _parent("corpora.corpus_id"), nullable=False, index=True),
    Column("fingerprint", String(64), nullable=False, index=True),
    Column("rows", Integer, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    _next_seq("slices"),
    Index(None, "seq", "slice_id"),
    Index(None, "corpus_id", "seq", "slice_id"),
)

# Columns stand in the order of `ImageRecord`'s fields.
images = Table(
    "images",
    metadata,
    Column("image_id", _ID, primary_key=True),
    Column("corpus_id", _ID, _parent("corpora.corpus_id"), nullable=False),
    Column("root_id", _ID, _parent("roots.root_id"), nullable=False),
    Column("uri", _NAME, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("mtime_ns", BigInteger, nullable=False),
    Column("state", String(12), nullable=False),
    Column("slice_id", _ID, _parent("slices.slice_id", on_delete="SET NULL"), index=True),
    Column("width", Integer, nullable=False),
    Column("height", Integer, nullable=False),
    Column("format", String(32), nullable=False),
    Column("taken_at", BigInteger),
    Column("latitude", Float),
    Column("longitude", Float),
    Column("position", BigInteger),
    UniqueConstraint("root_id", "uri"),
    Index(None, "corpus_id", "state"),
    Index(None, "hash", "corpus_id"),
)

captions = Table(
    "captions",
    metadata,
    Column("image_id", _ID, _parent("images.image_id"), primary_key=True),
    Column("source", String(32), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("text", Text, nullable=False),
)

slice_members = Table(
    "slice_members",
    metadata,
    Column("slice_id", _ID, _parent("slices.slice_id"), primary_key=True),
    Column("image_id", _ID, _parent("images.image_id"), primary_key=True, index=True),
    Column("position", Integer, nullable=False),
)

receipts = Table(
    "receipts",
    metadata,
    Column("slice_id", _ID, _parent("slices.slice_id"), primary_key=True),
    Column("part", String(128), primary_key=True),
    Column("path", _NAME, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("checksum", String(64), nullable=False),
    Column("seconds", Float, nullable=False),
)

loads = Table(
    "loads",
    metadata,
    Column("collection", String(255), primary_key=True),
    Column("slice_id", _ID, _parent("slices.slice_id"), primary_key=True, index=True),
    Column("loaded_at", UtcDateTime, nullable=False),
)

# A tombstone outlives its image's row (a picture moved onto a gone one's path replaces it), so it has no key into images.
tombstones = Table(
    "tombstones",
    metadata,
    Column("image_id", _ID, primary_key=True),
    Column("corpus_id", _ID, _parent("corpora.corpus_id"), nullable=False, index=True),
    Column("created_at", UtcDateTime, nullable=False),
)

# Which collection has carried out which tombstone. A new tombstone of the same picture starts without rows here.
deletions = Table(
    "deletions",
    metadata,
    Column("collection", String(255), primary_key=True),
    Column("image_id", _ID, _parent("tombstones.image_id"), primary_key=True, index=True),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", _ID, primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("corpus_id", _ID, _parent("corpora.corpus_id"), index=True),
    Column("state", String(12), nullable=False),
    Column("stage", String(64), nullable=False),
    Column("started_at", UtcDateTime, nullable=False, index=True),
    Column("finished_at", UtcDateTime),
    Column("counts", JSON, nullable=False),
    Column("error", Text, nullable=False),
    Column("request", JSON, nullable=False, server_default="{}"),
    Column("worker", String(200), nullable=False, server_default=text("''")),
    Column("heartbeat_at", UtcDateTime),
    Column("cancel_requested", Boolean, nullable=False, server_default=false()),
    _next_seq("runs"),
    Index(None, "seq"),
)

# Every try at a slice, whatever came of it.
slice_attempts = Table(
    "slice_attempts",
    metadata,
    Column("slice_id", _ID, _parent("slices.slice_id"), primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("run_id", _ID, _parent("runs.run_id"), nullable=False, index=True),
    Column("worker", String(200), nullable=False),
    Column("state", String(12), nullable=False),
    Column("embedded", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("error", Text, nullable=False),
)

# The last failure of each kind of each file: `run_id` is the last run that met it.
failures = Table(
    "failures",
    metadata,
    Column("root_id", _ID, _parent("roots.root_id"), primary_key=True),
    Column("uri", _NAME, primary_key=True),
    Column("code", String(64), primary_key=True),
    Column("run_id", _ID, _parent("runs.run_id"), nullable=False, index=True),
    Column("message", Text, nullable=False),
    Column("image_id", _ID),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("kind", String(64), primary_key=True),
    Column("version", String(64), primary_key=True),
    Column("path", _NAME, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("metrics", JSON, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
)

aliases = Table(
    "aliases",
    metadata,
    Column("alias", String(255), primary_key=True),
    Column("collection", String(255), nullable=False),
)

tags = Table(
    "tags",
    metadata,
    Column("tag_id", _ID, primary_key=True),  # minted from picture, source and text: the same tag again is the same row
    Column("image_id", _ID, _parent("images.image_id"), nullable=False, index=True),
    Column("corpus_id", _ID, _parent("corpora.corpus_id"), nullable=False, index=True),
    Column("text", Text, nullable=False),
    Column("source", String(32), nullable=False),
    Column("score", Float),
    Column("query_id", String(64)),
    Column("created_at", UtcDateTime, nullable=False, index=True),
)

# Pictures whose tags the sparse collection has yet to take over. Such a picture may be gone, so there is no key into images.
tag_outbox = Table(
    "tag_outbox",
    metadata,
    Column("image_id", _ID, primary_key=True),
    Column("seq", BigInteger, nullable=False, index=True),
)

queries = Table(
    "queries",
    metadata,
    Column("query_id", String(64), primary_key=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("text", Text, nullable=False),
    Column("topic", Text),
    Column("summary", JSON, nullable=False),
    Column("trace", LargeBinary, nullable=False),
    Column("owner", String(200), nullable=False, server_default=text("''")),  # who asked; "" where nobody had to say
    Index(None, "created_at", "query_id"),
    Index(None, "owner", "created_at", "query_id"),
)

# Feedback outlives the record of its query, which is kept for a while only.
feedback = Table(
    "feedback",
    metadata,
    Column("query_id", String(64), primary_key=True),
    Column("digest", String(64), primary_key=True),
    Column("relevant", JSON, nullable=False),
    Column("irrelevant", JSON, nullable=False),
    Column("eta", Float, nullable=False),
    Column("created_at", UtcDateTime, nullable=False, index=True),
    Column("event_id", _ID, unique=True),
    Column("active", Boolean, nullable=False),
)

# The present state, and the events that it is the sum of; both change in one transaction.
trust_topics = Table(
    "trust_topics",
    metadata,
    Column("topic", _NAME, primary_key=True),
    Column("encoder", Text),
    Column("centre", LargeBinary),
    Column("queries", Integer, nullable=False),
    Column("weights", JSON, nullable=False),
    Column("words", JSON, nullable=False),
)

trust_events = Table(
    "trust_events",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("event_id", _ID, nullable=False, unique=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("topic", _NAME, index=True),
    Column("cause", String(64), nullable=False),
    Column("before", JSON, nullable=False),
    Column("after", JSON, nullable=False),
    Column("details", JSON, nullable=False),
    Column("vector", LargeBinary),
)

engine_states = Table(
    "engine_states",
    metadata,
    Column("name", _NAME, primary_key=True),
    Column("enabled", Boolean),
    Column("priority", Integer),
)

# Pictures that are copies of each other: of equal content (exact), or within a distance (near). One row a picture and kind.
duplicates = Table(
    "duplicates",
    metadata,
    Column("image_id", _ID, _parent("images.image_id"), primary_key=True),
    Column("kind", String(8), primary_key=True),
    Column("corpus_id", _ID, _parent("corpora.corpus_id"), nullable=False, index=True),
    Column("group_id", _ID, nullable=False, index=True),
    Column("distance", Float, nullable=False),
)

model_swaps = Table(
    "model_swaps",
    metadata,
    Column("swap_id", _ID, primary_key=True),
    Column("space", _NAME, nullable=False),
    Column("target", _NAME, nullable=False),
    Column("old_collection", String(255), nullable=False),
    Column("new_collection", String(255), nullable=False),
    Column("state", String(12), nullable=False),
    Column("created_at", UtcDateTime, nullable=False, index=True),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("counts", JSON, nullable=False),
    Column("report", JSON, nullable=False),
    Column("error", Text, nullable=False),
)

# What a space is made of in this home, where a swap has changed it from what the profile says.
space_overrides = Table(
    "space_overrides",
    metadata,
    Column("space", _NAME, primary_key=True),
    Column("definition", JSON, nullable=False),
    Column("swap_id", _ID, nullable=False),
)

# Proofs of commits, for writers whose connection died before they were told (see once.py). Pruned after an hour.
write_tokens = Table(
    "write_tokens",
    metadata,
    Column("token", _ID, primary_key=True),
    Column("written_at", UtcDateTime, nullable=False),
)

# API keys of the service: what is kept of a key's secret can check it, and gives nothing away.
api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", String(32), primary_key=True),
    Column("name", _NAME, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("scopes", JSON, nullable=False),
    Column("corpora", JSON),  # null: all
    Column("rate", String(40)),
    Column("created_at", UtcDateTime, nullable=False, index=True),
    Column("expires_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
    Column("last_used_at", UtcDateTime),
)

# Answers to writes that carried an Idempotency-Key, so that the same write again gets the same answer. Pruned after a day.
idempotency = Table(
    "idempotency",
    metadata,
    Column("owner", String(200), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("status", Integer),  # null: still being worked on
    Column("body", LargeBinary),
    Column("created_at", UtcDateTime, nullable=False, index=True),
)
