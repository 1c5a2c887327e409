"""Tables of queries, feedback on their answers, and the trust learnt from it."""

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
