"""Tables of what is learnt in use: tags, queries, feedback, trust, and states of guide engines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables; those of 0001 stay as they are."""
    op.create_table(
        "tags",
        sa.Column("tag_id", sa.String(length=36), nullable=False),
        sa.Column("image_id", sa.String(length=36), nullable=False),
        sa.Column("corpus_id", sa.String(length=36), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("query_id", sa.String(length=64), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["corpus_id"], ["corpora.corpus_id"], name=op.f("fk_tags_corpus_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["image_id"], ["images.image_id"], name=op.f("fk_tags_image_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("tag_id", name=op.f("pk_tags")),
    )
    op.create_index(op.f("ix_tags_image_id"), "tags", ["image_id"], unique=False)
    op.create_index(op.f("ix_tags_corpus_id"), "tags", ["corpus_id"], unique=False)
    op.create_index(op.f("ix_tags_created_at"), "tags", ["created_at"], unique=False)
    op.create_table(
        "tag_outbox",
        sa.Column("image_id", sa.String(length=36), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("image_id", name=op.f("pk_tag_outbox")),
    )
    op.create_index(op.f("ix_tag_outbox_seq"), "tag_outbox", ["seq"], unique=False)

    op.create_table(
        "queries",
        sa.Column("query_id", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=True),
        sa.Column("summary", sa.JSON(), nullable=False),
        sa.Column("trace", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("query_id", name=op.f("pk_queries")),
    )
    op.create_index(op.f("ix_queries_created_at_query_id"), "queries", ["created_at", "query_id"], unique=False)
    op.create_table(
        "feedback",
        sa.Column("query_id", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("relevant", sa.JSON(), nullable=False),
        sa.Column("irrelevant", sa.JSON(), nullable=False),
        sa.Column("eta", sa.Float(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("event_id", sa.String(length=36), nullable=True),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("query_id", "digest", name=op.f("pk_feedback")),
        sa.UniqueConstraint("event_id", name=op.f("uq_feedback_event_id")),
    )
    op.create_index(op.f("ix_feedback_created_at"), "feedback", ["created_at"], unique=False)

    op.create_table(
        "trust_topics",
        sa.Column("topic", _NAME, nullable=False),
        sa.Column("encoder", sa.Text(), nullable=True),
        sa.Column("centre", sa.LargeBinary(), nullable=True),
        sa.Column("queries", sa.Integer(), nullable=False),
        sa.Column("weights", sa.JSON(), nullable=False),
        sa.Column("words", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("topic", name=op.f("pk_trust_topics")),
    )
    op.create_table(
        "trust_events",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("event_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("topic", _NAME, nullable=True),
        sa.Column("cause", sa.String(length=64), nullable=False),
        sa.Column("before", sa.JSON(), nullable=False),
        sa.Column("after", sa.JSON(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_trust_events")),
        sa.UniqueConstraint("event_id", name=op.f("uq_trust_events_event_id")),
    )
    op.create_index(op.f("ix_trust_events_topic"), "trust_events", ["topic"], unique=False)

    op.create_table(
        "engine_states",
        sa.Column("name", _NAME, nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_engine_states")),
    )


def downgrade() -> None:
    """Drop the tables, and what was learnt with them."""
    for table in ("engine_states", "trust_events", "trust_topics", "feedback", "queries", "tag_outbox", "tags"):
        op.drop_table(table)
