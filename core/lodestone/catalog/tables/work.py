"""Tables of runs, their attempts at slices, and files that failed."""

from __future__ import annotations

from sqlalchemy import JSON, Boolean, Column, Float, Index, Integer, String, Table, Text, false, text

from lodestone.catalog.tables.base import ID, NAME, UtcDateTime, metadata, next_seq, parent

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
