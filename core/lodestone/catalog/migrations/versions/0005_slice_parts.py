"""Finished parts of each slice as a column, so that unfinished slices are found without reading finished ones."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INDEX = "ix_slices_corpus_id_parts_seq_slice_id"
_TOO_LONG = 2000  # characters; see slice_parts.py


def upgrade() -> None:
    """Add the column, filled from the existing receipts, and its index."""
    op.add_column("slices", sa.Column("parts", _NAME, nullable=False, server_default=sa.text("''")))
    joined = "string_agg" if op.get_bind().dialect.name == "postgresql" else "group_concat"
    op.execute(
        f"UPDATE slices SET parts = (SELECT coalesce(CASE WHEN sum(length(part) + 1) > {_TOO_LONG} THEN '*' "  # noqa: S608
        f"ELSE {joined}(part, '/') END, '') "
        "FROM (SELECT part FROM receipts WHERE receipts.slice_id = slices.slice_id ORDER BY part) AS named)"
    )
    op.create_index(op.f(_INDEX), "slices", ["corpus_id", "parts", "seq", "slice_id"], unique=False)


def downgrade() -> None:
    """Drop what was added; the receipts say the same."""
    op.drop_index(op.f(_INDEX), table_name="slices")
    op.drop_column("slices", "parts")
