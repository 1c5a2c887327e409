"""Tables that a service needs: API keys, answered writes, rates, proofs of commits, and the home's id."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Integer, LargeBinary, String, Table

from lodestone.catalog.tables.base import ID, NAME, UtcDateTime, metadata

# Proofs of commits, for writers whose connection was lost before the commit was confirmed (see exactly_once.py).
# Pruned after an hour.
write_tokens = Table(
    "write_tokens",
    metadata,
    Column("token", ID, primary_key=True),
    Column("written_at", UtcDateTime, nullable=False),
)

# API keys of the service. The stored digest can check a secret but does not reveal it.
api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", String(32), primary_key=True),
    Column("name", NAME, nullable=False),
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
    Column("status", Integer),  # null: still in progress
    Column("body", LargeBinary),
    Column("created_at", UtcDateTime, nullable=False, index=True),
)

# Requests of senders by window, counted by all replicas together (see rate_windows.py). Pruned when their windows are over.
rate_windows = Table(
    "rate_windows",
    metadata,
    Column("sender", String(200), primary_key=True),
    Column("window_s", Integer, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("taken", Integer, nullable=False),
    Column("granted", Integer, nullable=False),  # by the last statement
    Column("ends_at", BigInteger, nullable=False, index=True),  # seconds since 1970
)

# Facts that folders on several machines share (see home_facts.py).
home_facts = Table(
    "home_facts",
    metadata,
    Column("name", NAME, primary_key=True),
    Column("value", NAME, nullable=False),
)
