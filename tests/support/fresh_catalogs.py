"""Catalogs for hundreds of tests without a migration each: an empty SQLite file becomes a copy of a migrated one.

`Catalog.open` of this process only: other processes, PostgreSQL and older catalogs are migrated as ever, and so is every
catalog of a test that asks for `real_migrations`.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine

from lodestone.catalog.database import migrate
from lodestone.catalog.database.engine import make_engine, use_write_ahead_log

_Upgrade = Callable[[Engine], None]


class Template:
    """A migrated catalog without rows, made by the real migrations when it is first needed."""

    def __init__(self, path: Path, upgrade: _Upgrade) -> None:
        self.migrate = upgrade
        self._path = path
        self._making = threading.Lock()

    def upgrade(self, engine: Engine) -> None:
        """As `migrate._upgrade`."""
        if engine.dialect.name != "sqlite":
            self.migrate(engine)
            return
        with engine.connect() as connection:
            raw = connection.connection.dbapi_connection
            assert isinstance(raw, sqlite3.Connection)
            if empty := not raw.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                self._make()
                with closing(sqlite3.connect(self._path)) as source:
                    source.backup(raw)
        if not empty:
            self.migrate(engine)

    def _make(self) -> None:
        with self._making:
            if not self._path.exists():
                engine = make_engine(self._path)
                use_write_ahead_log(engine)
                self.migrate(engine)
                engine.dispose()


@pytest.fixture(scope="session", autouse=True)
def copied_catalogs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Template]:
    """New catalogs are copies, as long as the tests run."""
    with pytest.MonkeyPatch.context() as patch:
        template = Template(tmp_path_factory.mktemp("template") / "catalog.sqlite", migrate._upgrade)
        patch.setattr(migrate, "_upgrade", template.upgrade)
        yield template


@pytest.fixture
def real_migrations(copied_catalogs: Template) -> Iterator[None]:
    """For tests of the migrations themselves."""
    with pytest.MonkeyPatch.context() as patch:  # (a test's own one may be undone by the test)
        patch.setattr(migrate, "_upgrade", copied_catalogs.migrate)
        yield
