"""Table of slices whose files hold rows of removed pictures, filled with those that earlier removals left."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Create the table, and list the slices that have lost members since they were made."""
    op.create_table(
        "erasures",
        sa.Column("slice_id", sa.String(36), nullable=False),
        sa.ForeignKeyConstraint(
            ["slice_id"], ["slices.slice_id"], name="fk_erasures_slice_id_slices", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("slice_id", name="pk_erasures"),
    )
    op.execute(
        "INSERT INTO erasures (slice_id) SELECT slice_id FROM slices WHERE rows > "
        "(SELECT count(*) FROM slice_members WHERE slice_members.slice_id = slices.slice_id)"
    )


def downgrade() -> None:
    """Drop the table; rows of removed pictures then stay until a compaction."""
    op.drop_table("erasures")
