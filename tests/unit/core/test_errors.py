"""Errors keep their code, hint and facts on the way through processes, and codes are unique."""

from __future__ import annotations

import pickle
import sqlite3
from pathlib import Path

import pytest

from lodestone import errors
from lodestone.catalog.database.engine import translated_errors
from lodestone.errors import CatalogError, LodestoneError, UnknownNameError


def _all(kind: type[LodestoneError] = LodestoneError) -> list[type[LodestoneError]]:
    return [kind, *(sub for child in kind.__subclasses__() if child.__module__ == errors.__name__ for sub in _all(child))]


@pytest.mark.parametrize("kind", _all())
def test_an_error_survives_pickling(kind: type[LodestoneError]) -> None:
    error = pickle.loads(pickle.dumps(kind("it broke", hint="mend it", path="a/b", count=3)))
    assert type(error) is kind
    assert (str(error), error.hint, error.details) == ("it broke", "mend it", {"path": "a/b", "count": 3})


def test_codes_are_unique_and_statuses_are_errors() -> None:
    codes = [kind.code for kind in _all()]
    assert len(codes) == len(set(codes))
    assert all(400 <= kind.status < 600 and 0 < kind.exit_code < 128 for kind in _all())


def test_every_code_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "errors.md").read_text("utf-8")
    assert [kind.code for kind in _all() if f"`{kind.code}`" not in text] == []


def test_an_unknown_name_lists_what_is_known() -> None:
    error = UnknownNameError.among("fusion", "magic", ["rrf", "needle"])
    assert "magic" in error.message
    assert error.hint == "known: needle, rrf"
    assert UnknownNameError.among("corpus", "x", []).hint == "known: none yet"


def test_a_catalog_on_a_read_only_disk_is_not_taken_for_a_damaged_one(tmp_path: Path) -> None:
    file = tmp_path / "catalog.sqlite"
    sqlite3.connect(file).close()
    for url in (f"file:{file}?mode=ro", f"file:{tmp_path / 'gone' / 'catalog.sqlite'}"):
        with pytest.raises(CatalogError, match="cannot be written") as raised, translated_errors():
            sqlite3.connect(url, uri=True).execute("CREATE TABLE t (x)")
        assert "damaged" not in raised.value.hint
