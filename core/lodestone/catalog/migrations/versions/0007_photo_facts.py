"""Columns of what a photo's header says beside time and place, and a mark of pictures whose headers are still to be read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_COLUMNS = ("utc_offset_minutes", "taken_subsec_ms", "camera_make", "camera_model", "metadata_version")
_INDEX = "ix_images_unread_metadata"
_UNREAD = "metadata_version = 0 AND state = 'active'"


def upgrade() -> None:
    """Add the columns and the index. Existing pictures get version 0, and the next index run reads their headers."""
    with op.batch_alter_table("images", recreate="never") as images:
        images.add_column(sa.Column("utc_offset_minutes", sa.Integer(), nullable=True))
        images.add_column(sa.Column("taken_subsec_ms", sa.Integer(), nullable=True))
        images.add_column(sa.Column("camera_make", sa.Text(), nullable=True))
        images.add_column(sa.Column("camera_model", sa.Text(), nullable=True))
        images.add_column(sa.Column("metadata_version", sa.Integer(), nullable=False, server_default="0"))
    where = sa.text(_UNREAD)
    op.create_index(_INDEX, "images", ["root_id", "uri"], unique=False, sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    """Drop what was added; after another upgrade the headers are read again."""
    op.drop_index(_INDEX, table_name="images")
    for column in _COLUMNS:
        op.drop_column("images", column)
