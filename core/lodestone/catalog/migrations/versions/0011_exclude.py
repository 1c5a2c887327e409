"""Column of what is left out of a directory: patterns, one a line."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the column, empty for directories of older versions."""
    with op.batch_alter_table("roots", recreate="never") as roots:
        roots.add_column(sa.Column("exclude", sa.Text(), nullable=False, server_default=sa.text("''")))


def downgrade() -> None:
    """Drop the column; what was left out is indexed by the next run."""
    op.drop_column("roots", "exclude")
