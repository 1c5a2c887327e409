"""Tables of artifacts, aliases, states of guide engines, model swaps and space overrides."""

from __future__ import annotations

from sqlalchemy import JSON, Boolean, Column, Integer, String, Table, Text

from lodestone.catalog.tables.base import ID, NAME, UtcDateTime, metadata

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
