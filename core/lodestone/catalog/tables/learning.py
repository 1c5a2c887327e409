"""Tables of queries, feedback and trust, and of the models, switched engines and spaces that a home was given."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Boolean, Column, Float, Index, Integer, LargeBinary, String, Table, Text, text

from lodestone.catalog.tables.base import ID, NAME, UtcDateTime, metadata

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
    Column("owner", String(200), nullable=False, server_default=text("''")),  # "" where callers are not identified
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
    Column("event_id", ID, unique=True),
    Column("active", Boolean, nullable=False),
)

# The current state, and the events whose sum it is; both change in one transaction.
trust_topics = Table(
    "trust_topics",
    metadata,
    Column("topic", NAME, primary_key=True),
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
    Column("event_id", ID, nullable=False, unique=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("topic", NAME, index=True),
    Column("cause", String(64), nullable=False),
    Column("before", JSON, nullable=False),
    Column("after", JSON, nullable=False),
    Column("details", JSON, nullable=False),
    Column("vector", LargeBinary),
)


artifacts = Table(
    "artifacts",
    metadata,
    Column("kind", String(64), primary_key=True),
    Column("version", String(64), primary_key=True),
    Column("path", NAME, nullable=False),
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

engine_states = Table(
    "engine_states",
    metadata,
    Column("name", NAME, primary_key=True),
    Column("enabled", Boolean),
    Column("priority", Integer),
)

model_swaps = Table(
    "model_swaps",
    metadata,
    Column("swap_id", ID, primary_key=True),
    Column("space", NAME, nullable=False),
    Column("target", NAME, nullable=False),
    Column("old_collection", String(255), nullable=False),
    Column("new_collection", String(255), nullable=False),
    Column("state", String(12), nullable=False),
    Column("created_at", UtcDateTime, nullable=False, index=True),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("counts", JSON, nullable=False),
    Column("report", JSON, nullable=False),
    Column("error", Text, nullable=False),
)

# Definitions of spaces in this home that a swap has changed from the profile's.
space_overrides = Table(
    "space_overrides",
    metadata,
    Column("space", NAME, primary_key=True),
    Column("definition", JSON, nullable=False),
    Column("swap_id", ID, nullable=False),
)
