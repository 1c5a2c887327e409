"""Columns and tables of bulk indexing: kinds and states of roots, requests of runs, attempts, duplicates, model swaps."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_ROOTS = ("kind", "enabled", "watched", "scanned_at")
_RUNS = ("request", "worker", "heartbeat_at", "cancel_requested")
_SEQ_INDEXES = (("slices", ["seq", "slice_id"]), ("slices", ["corpus_id", "seq", "slice_id"]), ("runs", ["seq"]))


def upgrade() -> None:
    """Add columns, with defaults that suit existing rows, and tables."""
    with op.batch_alter_table("roots", recreate="never") as roots:
        roots.add_column(sa.Column("kind", sa.String(length=16), nullable=False, server_default="folder"))
        roots.add_column(sa.Column("enabled", sa.Boolean(), nullable=False, server_default=sa.true()))
        roots.add_column(sa.Column("watched", sa.Boolean(), nullable=False, server_default=sa.false()))
        roots.add_column(sa.Column("scanned_at", sa.DateTime(timezone=True), nullable=True))
    with op.batch_alter_table("runs", recreate="never") as runs:
        runs.add_column(sa.Column("request", sa.JSON(), nullable=False, server_default="{}"))
        runs.add_column(sa.Column("worker", sa.String(length=200), nullable=False, server_default=sa.text("''")))
        runs.add_column(sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True))
        runs.add_column(sa.Column("cancel_requested", sa.Boolean(), nullable=False, server_default=sa.false()))

    for table, key, started in (("slices", "slice_id", "created_at"), ("runs", "run_id", "started_at")):
        op.add_column(table, sa.Column("seq", sa.BigInteger(), nullable=False, server_default="0"))
        op.execute(
            f"UPDATE {table} SET seq = ordered.place FROM (SELECT {key} AS id, row_number() OVER (ORDER BY {started}, {key}) "  # noqa: S608
            f"AS place FROM {table}) AS ordered WHERE ordered.id = {table}.{key}"
        )
    for table, columns in _SEQ_INDEXES:
        op.create_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table, columns, unique=False)

    with op.batch_alter_table("images", recreate="never") as images:
        images.add_column(sa.Column("position", sa.BigInteger(), nullable=True))

    op.create_table(
        "containers",
        sa.Column("root_id", sa.String(length=36), nullable=False),
        sa.Column("uri", _NAME, nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.Column("items", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["root_id"], ["roots.root_id"], name=op.f("fk_containers_root_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("root_id", "uri", name=op.f("pk_containers")),
    )

    op.create_table(
        "slice_attempts",
        sa.Column("slice_id", sa.String(length=36), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("worker", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=12), nullable=False),
        sa.Column("embedded", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["slice_id"], ["slices.slice_id"], name=op.f("fk_slice_attempts_slice_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_slice_attempts_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("slice_id", "attempt", name=op.f("pk_slice_attempts")),
    )
    op.create_index(op.f("ix_slice_attempts_run_id"), "slice_attempts", ["run_id"], unique=False)

    op.create_table(
        "duplicates",
        sa.Column("image_id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("corpus_id", sa.String(length=36), nullable=False),
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("distance", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["corpus_id"], ["corpora.corpus_id"], name=op.f("fk_duplicates_corpus_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["image_id"], ["images.image_id"], name=op.f("fk_duplicates_image_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("image_id", "kind", name=op.f("pk_duplicates")),
    )
    op.create_index(op.f("ix_duplicates_corpus_id"), "duplicates", ["corpus_id"], unique=False)
    op.create_index(op.f("ix_duplicates_group_id"), "duplicates", ["group_id"], unique=False)

    op.create_table(
        "model_swaps",
        sa.Column("swap_id", sa.String(length=36), nullable=False),
        sa.Column("space", _NAME, nullable=False),
        sa.Column("target", _NAME, nullable=False),
        sa.Column("old_collection", sa.String(length=255), nullable=False),
        sa.Column("new_collection", sa.String(length=255), nullable=False),
        sa.Column("state", sa.String(length=12), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("counts", sa.JSON(), nullable=False),
        sa.Column("report", sa.JSON(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("swap_id", name=op.f("pk_model_swaps")),
    )
    op.create_index(op.f("ix_model_swaps_created_at"), "model_swaps", ["created_at"], unique=False)
    op.create_table(
        "space_overrides",
        sa.Column("space", _NAME, nullable=False),
        sa.Column("definition", sa.JSON(), nullable=False),
        sa.Column("swap_id", sa.String(length=36), nullable=False),
        sa.PrimaryKeyConstraint("space", name=op.f("pk_space_overrides")),
    )
    op.create_table(
        "write_tokens",
        sa.Column("token", sa.String(length=36), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("token", name=op.f("pk_write_tokens")),
    )


def downgrade() -> None:
    """Drop what was added; pictures, slices and receipts stay."""
    for table in ("write_tokens", "space_overrides", "model_swaps", "duplicates", "slice_attempts", "containers"):
        op.drop_table(table)
    for table, indexed in _SEQ_INDEXES:
        op.drop_index(op.f(f"ix_{table}_{'_'.join(indexed)}"), table_name=table)
    for table in ("slices", "runs"):
        op.drop_column(table, "seq")
    for table, columns in (("runs", _RUNS), ("roots", _ROOTS), ("images", ("position",))):
        for column in columns:
            op.drop_column(table, column)
