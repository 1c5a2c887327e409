"""Column of the last known progress of a run: its rate, what limits it, and the time left."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the column, empty for runs of older versions."""
    with op.batch_alter_table("runs", recreate="never") as runs:
        runs.add_column(sa.Column("progress", sa.JSON(), nullable=False, server_default="{}"))


def downgrade() -> None:
    """Drop the column; runs keep everything else."""
    op.drop_column("runs", "progress")
