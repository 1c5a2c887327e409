"""Column of the share of a picture that could be decoded, and another attempt at files that older decoders refused."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_INDEX = "ix_images_incomplete"
# Reasons that the decoder gives for what it cannot read, and no others: a file that is empty or gone stays as it is.
_DECODERS_REASONS = ("truncated", "corrupt", "unsupported", "not_an_image", "too_large")


def upgrade() -> None:
    """Add the column, empty for pictures that are complete, and let the next index run try refused pictures again."""
    with op.batch_alter_table("images", recreate="never") as images:
        images.add_column(sa.Column("decoded_share", sa.Float(), nullable=True))
    where = sa.text("decoded_share IS NOT NULL")
    op.create_index(_INDEX, "images", ["corpus_id"], unique=False, sqlite_where=where, postgresql_where=where)
    pictures = sa.table("images", sa.column("image_id"), sa.column("state"), sa.column("slice_id"))
    failures = sa.table("failures", sa.column("image_id"), sa.column("code"))
    refused = sa.select(failures.c.image_id).where(failures.c.code.in_(_DECODERS_REASONS), failures.c.image_id.is_not(None))
    op.execute(
        sa.update(pictures)
        .where(pictures.c.state == "failed", pictures.c.image_id.in_(refused))
        .values(state="pending", slice_id=None)
    )


def downgrade() -> None:
    """Drop the column; pictures that were tried again stay as they are."""
    op.drop_index(_INDEX, table_name="images")
    op.drop_column("images", "decoded_share")
