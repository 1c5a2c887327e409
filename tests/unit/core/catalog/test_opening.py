"""A catalog opens safely: new, old, newer, damaged, twice at once, on a full disk."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import QueuePool, event
from tests.support.catalogs import make_root, picture

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.database import migrate
from lodestone.catalog.database.engine import make_engine
from lodestone.catalog.tables import metadata
from lodestone.errors import CatalogError, ConfigurationError, HomeVersionError, OutOfSpaceError

pytestmark = pytest.mark.usefixtures("real_migrations")


def test_migrations_lead_to_the_schema_of_the_tables(tmp_path: Path) -> None:
    Catalog.open(tmp_path / "catalog.sqlite").close()
    engine = make_engine(tmp_path / "catalog.sqlite")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


@pytest.mark.parametrize(("most", "kept", "more"), [(15, 5, 10), (3, 3, 0)])
def test_a_process_opens_no_more_connections_to_a_server_than_it_may(most: int, kept: int, more: int) -> None:
    pytest.importorskip("psycopg")
    pool = make_engine("postgresql+psycopg://nobody@localhost/none", connections=most).pool

    assert isinstance(pool, QueuePool)
    assert (pool.size(), pool._max_overflow) == (kept, more)


def test_every_migration_is_known_to_the_quick_check() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).parents[1] / "migrations"))
    scripts = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert tuple(reversed(scripts)) == migrate.REVISIONS


def test_an_up_to_date_catalog_opens_without_alembic(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    Catalog.open(path).close()
    code = (
        "import sys; from pathlib import Path; from lodestone.catalog.catalog import Catalog; "
        "Catalog.open(Path(sys.argv[1])).ping(); assert 'alembic' not in sys.modules; assert 'filelock' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def test_what_was_written_is_there_after_opening_again(tmp_path: Path) -> None:
    path = tmp_path / "ünï 100% ?x=1#.sqlite"
    with Catalog.open(path) as catalog:
        made = catalog.ensure_corpus("cats")
    with Catalog.open(path) as catalog:
        assert catalog.corpus("cats") == made
        assert catalog.path == path


def test_a_catalog_written_by_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    Catalog.open(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    raw.close()
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(HomeVersionError, match="9999"):
        Catalog.open(path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before


def test_a_migration_that_fails_leaves_no_table_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from alembic import op

    create, made = op.create_table, []

    def fail_late(name: str, *args: object, **options: object) -> object:
        made.append(name)
        if len(made) == 5:
            raise RuntimeError("power cut")
        return create(name, *args, **options)  # type: ignore[arg-type]  # (passed through)

    path = tmp_path / "catalog.sqlite"
    monkeypatch.setattr(op, "create_table", fail_late)
    with pytest.raises(RuntimeError, match="power cut"):
        Catalog.open(path)
    monkeypatch.undo()
    with sqlite3.connect(path) as raw:
        assert raw.execute("SELECT name FROM sqlite_master").fetchall() == []
    raw.close()
    with Catalog.open(path) as catalog:
        catalog.ensure_corpus("cats")


def test_a_file_that_is_no_database_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    path.write_bytes(b"GIF89a" * 1000)
    with pytest.raises(CatalogError, match="not a database"):
        Catalog.open(path)
    assert path.read_bytes() == b"GIF89a" * 1000


@pytest.mark.parametrize(
    "location", ["not a url", "nosuchdb://x", "sqlite://", "sqlite:///:memory:", "postgresql+psycopg://me@[::1/db"]
)
def test_an_address_that_cannot_be_used_is_a_clear_error(location: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Catalog.open(location)
    assert caught.value.hint


def test_a_missing_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nowhere"):
        Catalog.open(tmp_path / "nowhere" / "catalog.sqlite")


def test_a_full_disk_is_named_and_loses_nothing_that_was_finished(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with Catalog.open(path) as catalog:
        _, root = make_root(catalog)
        catalog.add_images([picture(root, "first.jpg")])
    with Catalog.open(path) as catalog:
        # SQLite's own limit gives the same error as a full disk.
        event.listen(catalog._engine, "connect", lambda raw, _: raw.execute("PRAGMA max_page_count=1"))
        catalog._engine.dispose()
        with pytest.raises(OutOfSpaceError):
            catalog.add_images([picture(root, f"{number}.jpg") for number in range(5_000)])
        assert [image.uri for image in catalog.images_of_root(root.root_id)] == ["first.jpg"]
    with Catalog.open(path) as catalog:
        assert catalog.add_images([picture(root, "second.jpg")]) == 1


def test_constraints_are_enforced(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        _, root = make_root(catalog)
        with pytest.raises(CatalogError, match="FOREIGN KEY"):
            catalog.add_images([picture(root, "a.jpg", slice_id="nowhere")])
