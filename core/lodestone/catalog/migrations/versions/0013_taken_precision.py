"""Columns of how much of a picture's time is known, what it was read from, and what says its offset from UTC."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

_COLUMNS = {"taken_precision": 8, "taken_source": 16, "taken_zone": 8}


def upgrade() -> None:
    """Add the columns. The next index run reads the headers of all pictures again, whose dates are now read otherwise.

    That run also writes the stores' points of pictures whose local time is not UTC anew; no model runs for it.
    """
    with op.batch_alter_table("images", recreate="never") as images:
        for name, length in _COLUMNS.items():
            images.add_column(sa.Column(name, sa.String(length), nullable=True))
    op.execute("UPDATE images SET metadata_version = 0 WHERE metadata_version <> 0")


def downgrade() -> None:
    """Drop what was added; after another upgrade the headers are read again."""
    for name in _COLUMNS:
        op.drop_column("images", name)
