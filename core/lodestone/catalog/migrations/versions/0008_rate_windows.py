"""Table with the requests of each sender, by window, which all replicas of a service count together."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the table; it is empty until several replicas share rates."""
    op.create_table(
        "rate_windows",
        sa.Column("sender", sa.String(200), nullable=False),
        sa.Column("window_s", sa.Integer(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("taken", sa.Integer(), nullable=False),
        sa.Column("granted", sa.Integer(), nullable=False),
        sa.Column("ends_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sender", "window_s", "number", name=op.f("pk_rate_windows")),
    )
    op.create_index(op.f("ix_rate_windows_ends_at"), "rate_windows", ["ends_at"])


def downgrade() -> None:
    """Drop it; each replica counts for itself again."""
    op.drop_table("rate_windows")
