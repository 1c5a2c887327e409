"""Table with the home's id, which drivers on several machines share through the catalog."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the table. A folder with an id stores it in the catalog; so does a new one if the catalog has no picture yet."""
    op.create_table(
        "home_facts",
        sa.Column("name", _NAME, nullable=False),
        sa.Column("value", _NAME, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_home_facts")),
    )


def downgrade() -> None:
    """Drop it; homes go by their own `home.json` again, which says the same."""
    op.drop_table("home_facts")
