"""The alias file keeps what it was told, whole."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lodestone.errors import StoreError
from lodestone.store.aliases import JsonAliasTable


def test_aliases_are_kept_moved_and_forgotten(tmp_path: Path) -> None:
    table = JsonAliasTable(tmp_path / "new" / "aliases.json")
    assert table.all() == {}
    table.set("pictures", "pictures-1")
    table.set("pictures", "pictures-2")
    table.set("tags", "tags-1")
    table.delete("tags")
    table.delete("tags")
    again = JsonAliasTable(tmp_path / "new" / "aliases.json")
    assert again.all() == {"pictures": "pictures-2"}
    assert (again.get("pictures"), again.get("tags")) == ("pictures-2", None)
    assert [entry.name for entry in (tmp_path / "new").iterdir()] == ["aliases.json"]


def test_threads_do_not_lose_each_others_aliases(tmp_path: Path) -> None:
    table = JsonAliasTable(tmp_path / "aliases.json")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: table.set(f"alias{number}", "collection"), range(40)))
    assert len(table.all()) == 40


@pytest.mark.parametrize("text", ["", "[1]", '{"a": 1}', "{half"])
def test_an_unreadable_file_is_reported_with_its_path(tmp_path: Path, text: str) -> None:
    (tmp_path / "aliases.json").write_text(text)
    with pytest.raises(StoreError, match=r"aliases\.json"):
        JsonAliasTable(tmp_path / "aliases.json").all()
