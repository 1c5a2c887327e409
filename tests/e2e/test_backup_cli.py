"""`lodestone backup` and `lodestone embeddings` save, restore, verify and compact, and refuse damaged and forged backups."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest
from tests.support.cli import run_here
from tests.support.home import open_runtime
from tests.support.home_copies import copy_folder
from tests.support.pictures import write_photos

from lodestone.backup.tables import read_tables
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a home of 4 pictures, one of which vanished; not to be changed."""
    folder = tmp_path_factory.mktemp("original")
    paths = write_photos(folder / "photos", 4)
    with open_runtime(folder) as runtime:
        request = IndexRequest((folder / "photos",))
        index_paths(runtime, request)
        paths[0].unlink()
        index_paths(runtime, request)
    return folder


@pytest.fixture
def home(original: Path, tmp_path: Path) -> Path:
    copy_folder(original / "home", tmp_path / "home")
    return tmp_path / "home"


def test_embeddings_are_shown_compacted_and_verified(home: Path) -> None:
    shown = run_here("embeddings", "show", "--output", "json", home=home).json
    assert {part["rows"] for part in shown["parts"] if part["part"] == "meta"} == {4}
    assert all(part["in_use"] for part in shown["parts"])
    would = run_here("embeddings", "compact", "--dry-run", home=home)
    assert "would replace 1 slices by 1, 1 rows dropped" in would.out
    done = run_here("embeddings", "compact", "--output", "json", home=home).json["default"]
    assert (done["replaced"], done["rows_dropped"], done["waiting"]) == (1, 1, 0)
    assert "nothing to compact" in run_here("embeddings", "compact", home=home).out
    assert "as they were written" in run_here("embeddings", "verify", "--deep", home=home).out
    next((home / "embeddings").rglob("*.meta.parquet")).write_bytes(b"cut")
    found = run_here("embeddings", "verify", home=home)
    assert found.code == 15
    assert "has 3 bytes" in found.out
    assert "lodestone index" in found.err


def test_a_home_is_backed_up_verified_and_restored(home: Path, tmp_path: Path) -> None:
    backup, new = tmp_path / "backup", tmp_path / "new"
    made = run_here("backup", "create", backup, "--output", "json", home=home).json
    assert (made["images"], made["lacking"]) == (3, [])
    listed = run_here("backup", "list", backup, "--output", "json", home=home).json
    assert [snapshot["name"] for snapshot in listed] == [made["name"]]
    assert "is whole" in run_here("backup", "verify", backup, home=home).out
    restored = run_here("backup", "restore", backup, "--output", "json", home=new)
    assert restored.code == 0, restored.err
    assert (restored.json["images"], restored.json["lacking"]) == (3, 0)
    assert restored.json["points"] >= 6  # three pictures in two spaces
    assert len(run_here("search", "dogs", "--output", "json", "--local", home=new).json["hits"]) == 3
    again = run_here("backup", "restore", backup, home=new)
    assert (again.code, "not empty" in again.err) == (4, True)


def test_a_damaged_backup_is_said_to_be_one(home: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    run_here("backup", "create", backup, home=home)
    next(path for path in (backup / "files").rglob("*") if path.is_file()).write_bytes(b"x")
    found = run_here("backup", "verify", backup, "--output", "json", home=home)
    assert found.code == 15
    assert "1 of" in found.err
    assert run_here("backup", "verify", tmp_path / "nowhere", home=home).code == 3
    assert run_here("backup", "create", "s3://key:geheim@bucket/x", home=home).code == 4


def test_a_backup_in_a_place_that_cannot_be_is_refused(home: Path, tmp_path: Path) -> None:
    for inside in (home, home / "backup"):
        made = run_here("backup", "create", inside, home=home)
        assert (made.code, "would lie inside the home" in made.err) == (2, True)
    (tmp_path / "file").write_text("no folder")
    for nowhere in (tmp_path / "file", tmp_path / "file" / "below"):
        made = run_here("backup", "create", nowhere, home=home)
        assert (made.code, "nothing can be written in" in made.err) == (4, True)
    made = run_here("backup", "create", "s3://AKIA:hu/sh@bucket/x", home=home)
    assert (made.code, "holds credentials" in made.err, "sh@" in made.err) == (4, True, False)


def test_a_forged_backup_writes_nothing_outside_the_home(home: Path, tmp_path: Path) -> None:
    backup, outside = tmp_path / "backup", "../../../outside"
    assert run_here("backup", "create", backup, home=home).code == 0

    def forged(area: object, tables: object, **options: object) -> object:
        for table, rows in read_tables(area, tables, **options):  # type: ignore[arg-type]
            yield table, [{**row, "path": outside} for row in rows] if table.name == "receipts" else rows

    with patch("lodestone.backup.restore.read_tables", forged):
        restored = run_here("backup", "restore", backup, home=tmp_path / "new")
    assert (restored.code, "names a file that no backup holds" in restored.err) == (4, True)
    assert not list(tmp_path.rglob("outside"))
