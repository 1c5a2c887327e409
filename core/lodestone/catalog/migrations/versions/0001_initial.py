"""First schema of the catalog."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create all tables of the first schema."""
    op.create_table(
        "aliases",
        sa.Column("alias", sa.String(length=255), nullable=False),
        sa.Column("collection", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("alias", name=op.f("pk_aliases")),
    )
    op.create_table(
        "artifacts",
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("path", _NAME, nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("kind", "version", name=op.f("pk_artifacts")),
    )
    op.create_table(
        "corpora",
        sa.Column("corpus_id", sa.String(length=36), nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("corpus_id", name=op.f("pk_corpora")),
        sa.UniqueConstraint("name", name=op.f("uq_corpora_name")),
    )
    op.create_table(
        "roots",
        sa.Column("root_id", sa.String(length=36), nullable=False),
        sa.Column("corpus_id", sa.String(length=36), nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("path", _NAME, nullable=False),
        sa.ForeignKeyConstraint(["corpus_id"], ["corpora.corpus_id"], name=op.f("fk_roots_corpus_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("root_id", name=op.f("pk_roots")),
        sa.UniqueConstraint("corpus_id", "name", name=op.f("uq_roots_corpus_id_name")),
        sa.UniqueConstraint("corpus_id", "path", name=op.f("uq_roots_corpus_id_path")),
    )
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("corpus_id", sa.String(length=36), nullable=True),
        sa.Column("state", sa.String(length=12), nullable=False),
        sa.Column("stage", sa.String(length=64), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("counts", sa.JSON(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["corpus_id"], ["corpora.corpus_id"], name=op.f("fk_runs_corpus_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_runs")),
    )
    op.create_index(op.f("ix_runs_corpus_id"), "runs", ["corpus_id"], unique=False)
    op.create_index(op.f("ix_runs_started_at"), "runs", ["started_at"], unique=False)

    op.create_table(
        "slices",
        sa.Column("slice_id", sa.String(length=36), nullable=False),
        sa.Column("corpus_id", sa.String(length=36), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["corpus_id"], ["corpora.corpus_id"], name=op.f("fk_slices_corpus_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("slice_id", name=op.f("pk_slices")),
    )
    op.create_index(op.f("ix_slices_corpus_id"), "slices", ["corpus_id"], unique=False)
    op.create_index(op.f("ix_slices_fingerprint"), "slices", ["fingerprint"], unique=False)

    op.create_table(
        "tombstones",
        sa.Column("image_id", sa.String(length=36), nullable=False),
        sa.Column("corpus_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["corpus_id"], ["corpora.corpus_id"], name=op.f("fk_tombstones_corpus_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("image_id", name=op.f("pk_tombstones")),
    )
    op.create_index(op.f("ix_tombstones_corpus_id"), "tombstones", ["corpus_id"], unique=False)

    op.create_table(
        "deletions",
        sa.Column("collection", sa.String(length=255), nullable=False),
        sa.Column("image_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(["image_id"], ["tombstones.image_id"], name=op.f("fk_deletions_image_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("collection", "image_id", name=op.f("pk_deletions")),
    )
    op.create_index(op.f("ix_deletions_image_id"), "deletions", ["image_id"], unique=False)

    op.create_table(
        "failures",
        sa.Column("root_id", sa.String(length=36), nullable=False),
        sa.Column("uri", _NAME, nullable=False),
        sa.Column("code", sa.String(length=64), nullable=False),
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("image_id", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(["root_id"], ["roots.root_id"], name=op.f("fk_failures_root_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_failures_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("root_id", "uri", "code", name=op.f("pk_failures")),
    )
    op.create_index(op.f("ix_failures_run_id"), "failures", ["run_id"], unique=False)

    op.create_table(
        "images",
        sa.Column("image_id", sa.String(length=36), nullable=False),
        sa.Column("corpus_id", sa.String(length=36), nullable=False),
        sa.Column("root_id", sa.String(length=36), nullable=False),
        sa.Column("uri", _NAME, nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("mtime_ns", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=12), nullable=False),
        sa.Column("slice_id", sa.String(length=36), nullable=True),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("height", sa.Integer(), nullable=False),
        sa.Column("format", sa.String(length=32), nullable=False),
        sa.Column("taken_at", sa.BigInteger(), nullable=True),
        sa.Column("latitude", sa.Float(), nullable=True),
        sa.Column("longitude", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["corpus_id"], ["corpora.corpus_id"], name=op.f("fk_images_corpus_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["root_id"], ["roots.root_id"], name=op.f("fk_images_root_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["slice_id"], ["slices.slice_id"], name=op.f("fk_images_slice_id"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("image_id", name=op.f("pk_images")),
        sa.UniqueConstraint("root_id", "uri", name=op.f("uq_images_root_id_uri")),
    )
    op.create_index(op.f("ix_images_corpus_id_state"), "images", ["corpus_id", "state"], unique=False)
    op.create_index(op.f("ix_images_hash_corpus_id"), "images", ["hash", "corpus_id"], unique=False)
    op.create_index(op.f("ix_images_slice_id"), "images", ["slice_id"], unique=False)

    op.create_table(
        "loads",
        sa.Column("collection", sa.String(length=255), nullable=False),
        sa.Column("slice_id", sa.String(length=36), nullable=False),
        sa.Column("loaded_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["slice_id"], ["slices.slice_id"], name=op.f("fk_loads_slice_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("collection", "slice_id", name=op.f("pk_loads")),
    )
    op.create_index(op.f("ix_loads_slice_id"), "loads", ["slice_id"], unique=False)

    op.create_table(
        "receipts",
        sa.Column("slice_id", sa.String(length=36), nullable=False),
        sa.Column("part", sa.String(length=128), nullable=False),
        sa.Column("path", _NAME, nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("checksum", sa.String(length=64), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["slice_id"], ["slices.slice_id"], name=op.f("fk_receipts_slice_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("slice_id", "part", name=op.f("pk_receipts")),
    )
    op.create_table(
        "captions",
        sa.Column("image_id", sa.String(length=36), nullable=False),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["image_id"], ["images.image_id"], name=op.f("fk_captions_image_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("image_id", "source", "position", name=op.f("pk_captions")),
    )
    op.create_table(
        "slice_members",
        sa.Column("slice_id", sa.String(length=36), nullable=False),
        sa.Column("image_id", sa.String(length=36), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["image_id"], ["images.image_id"], name=op.f("fk_slice_members_image_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["slice_id"], ["slices.slice_id"], name=op.f("fk_slice_members_slice_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("slice_id", "image_id", name=op.f("pk_slice_members")),
    )
    op.create_index(op.f("ix_slice_members_image_id"), "slice_members", ["image_id"], unique=False)


def downgrade() -> None:
    """Drop all tables of the first schema."""
    for table in (
        "slice_members",
        "captions",
        "receipts",
        "loads",
        "images",
        "failures",
        "deletions",
        "tombstones",
        "slices",
        "runs",
        "roots",
        "corpora",
        "artifacts",
        "aliases",
    ):
        op.drop_table(table)
