"""The catalog's migrations work both ways, on every database, with data in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect, text
from tests.support.catalogs import embed_slice, make_root, picture, plan_slice

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.database import migrate
from lodestone.catalog.database.engine import make_engine
from lodestone.catalog.records import Failure, ImageState, SliceRecord
from lodestone.catalog.tables import metadata
from lodestone.errors import HomeVersionError

pytestmark = pytest.mark.usefixtures("real_migrations")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.server)])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Of a database without any table."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'catalog.sqlite'}"
        return
    server = request.getfixturevalue("postgres_server")
    url = server.create_database()
    yield url
    server.drop_database(url)


@pytest.fixture
def engine(new_url: str) -> Iterator[Engine]:
    made = make_engine(new_url)
    yield made
    made.dispose()


def go(engine: Engine, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate._SCRIPTS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        known = [None, *migrate.REVISIONS]
        target = None if revision == "base" else revision
        forward = known.index(target) >= known.index(migrate.revision(connection))
        (command.upgrade if forward else command.downgrade)(config, revision)


def names(engine: Engine) -> set[str]:
    return set(inspect(engine).get_table_names()) - {"alembic_version"}


def fill(catalog: Catalog) -> list[SliceRecord]:
    corpus, root = make_root(catalog)
    images = [picture(root, f"{number}.jpg") for number in range(6)]
    catalog.add_images(images)
    catalog.start_run("index", corpus.corpus_id)
    return [
        embed_slice(catalog, images[:2], minute=1),
        embed_slice(catalog, images[2:4], minute=2),
        plan_slice(catalog, images[4:], minute=3),
    ]


def test_migrations_lead_to_the_schema_of_the_tables(new_url: str, engine: Engine) -> None:
    Catalog.open(new_url).close()
    on_sqlite = engine.dialect.name == "sqlite"  # (Alembic compares no JSON defaults on PostgreSQL)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": on_sqlite})
        assert compare_metadata(context, metadata) == []
    assert names(engine) == set(metadata.tables)


def test_each_step_down_and_up_again_keeps_what_both_schemas_know(new_url: str, engine: Engine) -> None:
    with Catalog.open(new_url) as catalog:
        slices = fill(catalog)
        (run,) = catalog.runs()
        root = catalog.roots()[0]
    for revision in reversed(migrate.REVISIONS[:-1]):
        go(engine, revision)
        with Catalog.open(new_url) as catalog:
            assert list(catalog.slices()) == slices  # in the order they were added
            assert [record.slice_id for record in catalog.unfinished_slices(["meta"])] == [slices[2].slice_id]
            assert catalog.roots() == [root]
            assert catalog.last_run("index", root.corpus_id) is not None
            assert catalog.runs()[0].run_id == run.run_id
            assert catalog.count_images() == 6
            later = catalog.start_run("index", root.corpus_id)
            assert catalog.runs()[0] == later
            catalog._write(
                lambda connection: connection.execute(text("DELETE FROM runs WHERE run_id <> :id"), {"id": run.run_id})
            )


def test_going_down_to_nothing_leaves_nothing_and_up_again_all(new_url: str, engine: Engine) -> None:
    with Catalog.open(new_url) as catalog:
        fill(catalog)
    go(engine, "base")
    assert names(engine) == set()
    for revision in migrate.REVISIONS:
        go(engine, revision)
    with Catalog.open(new_url) as catalog:
        assert list(catalog.slices()) == []
        assert len(fill(catalog)) == 3


def test_a_catalog_written_by_a_newer_version_is_refused(new_url: str, engine: Engine) -> None:
    Catalog.open(new_url).close()
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(HomeVersionError, match="9999"):
        Catalog.open(new_url)


def test_a_migration_that_fails_leaves_no_table_behind(new_url: str, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    from alembic import op

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("power cut")

    monkeypatch.setattr(op, "add_column", fail)
    with pytest.raises(RuntimeError, match="power cut"):
        Catalog.open(new_url)
    monkeypatch.undo()
    assert names(engine) == set()
    Catalog.open(new_url).close()


def test_pictures_of_an_older_catalog_wait_for_their_headers_to_be_read(new_url: str, engine: Engine) -> None:
    with Catalog.open(new_url) as catalog:
        fill(catalog)
        (root,) = catalog.roots()
        known = [
            replace(i, taken_at=5, camera_make="Lodecam", metadata_version=1) for i in catalog.images_of_root(root.root_id)
        ]
        catalog.update_images(known)
        assert list(catalog.images_with_unread_metadata(root.root_id)) == []
    go(engine, "0006")
    assert not {"camera_make", "metadata_version"} & {column["name"] for column in inspect(engine).get_columns("images")}
    with Catalog.open(new_url) as catalog:
        unread = list(catalog.images_with_unread_metadata(root.root_id))
        assert [(i.uri, i.taken_at, i.camera_make, i.metadata_version) for i in unread] == [
            (f"{number}.jpg", 5, None, 0)
            for number in range(4)  # the other two are not embedded yet
        ]


def test_files_that_an_older_decoder_refused_wait_for_another_attempt(new_url: str, engine: Engine) -> None:
    with Catalog.open(new_url) as catalog:
        corpus, root = make_root(catalog)
        run = catalog.start_run("index", corpus.corpus_id)
        codes = {
            "cut.jpg": "truncated",
            "odd.png": "corrupt",
            "page.psd": "unsupported",
            "empty.jpg": "empty_file",
            "fine.jpg": "",
        }
        images = [
            replace(picture(root, name), state=ImageState.FAILED if code else ImageState.ACTIVE) for name, code in codes.items()
        ]
        catalog.add_images(images)
        for image in images:
            if code := codes[image.uri]:
                catalog.add_failures([Failure(run.run_id, root.root_id, image.uri, code, "no words", image.image_id)])
    go(engine, "0009")
    assert "decoded_share" not in {column["name"] for column in inspect(engine).get_columns("images")}
    with Catalog.open(new_url) as catalog:
        states = {image.uri: image.state for image in catalog.images_of_root(root.root_id)}
        assert states == {
            "cut.jpg": ImageState.PENDING,
            "odd.png": ImageState.PENDING,
            "page.psd": ImageState.PENDING,
            "empty.jpg": ImageState.FAILED,
            "fine.jpg": ImageState.ACTIVE,
        }
        assert catalog.count_failures() == 4  # until the attempt has succeeded
