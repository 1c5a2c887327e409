"""What a catalog's file says is read again after every change of it, by whomever, and only then."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.database.unchanged import UnchangedFacts


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with a write-ahead log and a table of one number."""
    path = tmp_path / "facts.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE numbers (number INTEGER)")
        connection.execute("INSERT INTO numbers VALUES (1)")
    return path


def change(path: Path, number: int) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE numbers SET number = ?", (number,))
    connection.close()


def test_a_fact_is_read_again_after_a_change_and_only_then(file: Path) -> None:
    facts, reads = UnchangedFacts(file), list[int]()

    def read() -> int:
        connection = sqlite3.connect(file)
        (number,) = connection.execute("SELECT number FROM numbers").fetchone()
        connection.close()
        reads.append(number)
        return int(number)

    assert [facts.get("number", read) for _ in range(3)] == [1, 1, 1]
    assert reads == [1]
    change(file, 2)
    assert [facts.get("number", read) for _ in range(3)] == [2, 2, 2]
    assert reads == [1, 2]
    facts.close()
    assert facts.get("number", read) == 2
    assert reads == [1, 2, 2], "closed, it remembers nothing"


def test_a_change_while_a_fact_is_read_has_it_read_again(file: Path) -> None:
    facts = UnchangedFacts(file)

    def read_before_a_change() -> int:
        change(file, 2)
        return 1

    assert facts.get("number", read_before_a_change) == 1
    assert facts.get("number", lambda: 2) == 2
    facts.close()


def test_a_locked_file_is_read_as_ever(file: Path) -> None:
    facts = UnchangedFacts(file)
    assert facts.get("number", lambda: 1) == 1
    keeper = sqlite3.connect(file, isolation_level=None)
    keeper.execute("BEGIN EXCLUSIVE")
    assert facts.get("number", lambda: 5) == 1, "it does not wait for the lock"
    keeper.execute("ROLLBACK")
    keeper.close()
    facts.close()


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """Every statement that is sent to a database meanwhile."""
    sent: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        sent.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    yield sent
    event.remove(Engine, "before_cursor_execute", note)


def test_names_and_switches_of_directories_and_aliases_cost_queries_no_statement(tmp_path: Path, statements: list[str]) -> None:
    with Catalog.open(tmp_path / "catalog.sqlite") as catalog, Catalog.open(tmp_path / "catalog.sqlite") as elsewhere:
        corpus = catalog.ensure_corpus("photos")
        root = catalog.ensure_root(corpus.corpus_id, "/photos")
        aliases = catalog.alias_table()
        aliases.set("labels", "labels-1")

        def read() -> tuple[tuple[str, ...], list[str], dict[str, str]]:
            return catalog.disabled_roots(), [each.name for each in catalog.roots(None)], aliases.all()

        assert read() == ((), ["photos"], {"labels": "labels-1"})
        statements.clear()
        assert read() == ((), ["photos"], {"labels": "labels-1"})
        assert statements == []
        elsewhere.set_root(root.root_id, enabled=False)
        elsewhere.alias_table().set("labels", "labels-2")
        assert read() == ((root.root_id,), ["photos"], {"labels": "labels-2"}), "others' changes hold at once"
        catalog.set_root(root.root_id, enabled=True)
        assert read()[0] == (), "and one's own"


def test_a_closed_catalog_leaves_no_log_behind(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with Catalog.open(path) as catalog:
        catalog.ensure_corpus("photos")
        catalog.roots(None)
    assert not [each.name for each in tmp_path.iterdir() if each.name.endswith(("-wal", "-shm"))]
