"""Tables of runs, attempts and failures, and of a service: keys, answered writes, rates, proofs of commits, the home's id."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Boolean, Column, Float, Index, Integer, LargeBinary, String, Table, Text, false, text

from lodestone.catalog.tables.base import ID, NAME, UtcDateTime, metadata, next_seq, parent

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


runs = Table(
    "runs",
    metadata,
    Column("run_id", ID, primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("corpus_id", ID, parent("corpora.corpus_id"), index=True),
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
    Column("progress", JSON, nullable=False, server_default="{}"),
    next_seq("runs"),
    Index(None, "seq"),
)

# Every attempt at a slice, whatever its outcome.
slice_attempts = Table(
    "slice_attempts",
    metadata,
    Column("slice_id", ID, parent("slices.slice_id"), primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("run_id", ID, parent("runs.run_id"), nullable=False, index=True),
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
    Column("root_id", ID, parent("roots.root_id"), primary_key=True),
    Column("uri", NAME, primary_key=True),
    Column("code", String(64), primary_key=True),
    Column("run_id", ID, parent("runs.run_id"), nullable=False, index=True),
    Column("message", Text, nullable=False),
    Column("image_id", ID),
)
