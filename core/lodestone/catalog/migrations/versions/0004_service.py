"""Tables of a service for several users: API keys, answers to repeated writes, and owners of queries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add tables and the queries' owner; existing queries have no owner."""
    with op.batch_alter_table("queries", recreate="never") as queries:
        queries.add_column(sa.Column("owner", sa.String(length=200), nullable=False, server_default=sa.text("''")))
    op.create_index(op.f("ix_queries_owner_created_at_query_id"), "queries", ["owner", "created_at", "query_id"], unique=False)
    op.create_table(
        "api_keys",
        sa.Column("key_id", sa.String(length=32), nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("corpora", sa.JSON(), nullable=True),
        sa.Column("rate", sa.String(length=40), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("key_id", name=op.f("pk_api_keys")),
    )
    op.create_index(op.f("ix_api_keys_created_at"), "api_keys", ["created_at"], unique=False)
    op.create_table(
        "idempotency",
        sa.Column("owner", sa.String(length=200), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("owner", "key", name=op.f("pk_idempotency")),
    )
    op.create_index(op.f("ix_idempotency_created_at"), "idempotency", ["created_at"], unique=False)


def downgrade() -> None:
    """Drop what was added; recorded queries stay."""
    op.drop_table("idempotency")
    op.drop_table("api_keys")
    op.drop_index(op.f("ix_queries_owner_created_at_query_id"), table_name="queries")
    op.drop_column("queries", "owner")
