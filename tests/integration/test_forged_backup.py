"""A forged or damaged backup is refused with what to do, before anything of it is in the home, and without a hang."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from blake3 import blake3
from PIL import Image
from tests.support.cli import lodestone, run_here
from tests.support.home import open_runtime
from tests.support.pictures import write_photos

from lodestone.backup.create import create_backup
from lodestone.config.unfinished import FILE
from lodestone.files.opening import open_area
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest

COUNT = 4
Forgery = Callable[[Path], object]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup with thumbnails of a home of four pictures; not to be changed."""
    folder = tmp_path_factory.mktemp("original")
    write_photos(folder / "photos", COUNT)
    with open_runtime(folder) as runtime:
        index_paths(runtime, IndexRequest((folder / "photos",)))
        create_backup(runtime, open_area(folder / "backup"), thumbnails=True)
    return folder / "backup"


@pytest.fixture
def backup(original: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(original, tmp_path / "backup")
    return tmp_path / "backup"


def _manifest(backup: Path) -> Path:
    return next(backup.glob("snapshots/*/manifest.json"))


def _edit(**facts: Any) -> Forgery:
    def forge(backup: Path) -> None:
        path = _manifest(backup)
        path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **facts}), encoding="utf-8")

    return forge


def _write(content: bytes) -> Forgery:
    return lambda backup: _manifest(backup).write_bytes(content)


def _artifacts(*paths: Any, **facts: Any) -> Forgery:
    """Name artifacts, whose contents are in the backup."""

    def forge(backup: Path) -> None:
        others = []
        for number, path in enumerate(paths):
            content = b"learnt %d" % number
            checksum = blake3(content).hexdigest()
            (backup / "files" / checksum[:2]).mkdir(exist_ok=True)
            (backup / "files" / checksum[:2] / checksum).write_bytes(content)
            others.append({"path": path, "size": len(content), "checksum": checksum, **facts})
        _edit(others=others)(backup)

    return forge


def _table(name: str, change: Callable[[pa.Table], pa.Table] | bytes, *, store_schema: bool = True) -> Forgery:
    """Replace a file of a table by another one, whose size, checksum and rows are in the manifest."""

    def forge(backup: Path) -> None:
        tables = json.loads(_manifest(backup).read_text("utf-8"))["tables"]
        entry = next(table for table in tables if table["table"] == name)
        path = backup / entry["path"]
        if not isinstance(change, bytes):
            table = change(pq.read_table(path))
            pq.write_table(table, path, compression="zstd", store_schema=store_schema)
            entry["rows"] = table.num_rows
        else:
            path.write_bytes(change)
        entry.update(size=path.stat().st_size, checksum=blake3(path.read_bytes()).hexdigest())
        _edit(tables=tables)(backup)

    return forge


def _column(name: str, column: str, value: Any) -> Forgery:
    def change(table: pa.Table) -> pa.Table:
        return table.set_column(table.column_names.index(column), column, pa.array([value] * table.num_rows))

    return _table(name, change)


def _unfolding(name: str, column: str, size: int) -> Forgery:
    """Put a text of so many bytes into every row; here and in the file it stands once."""

    def change(table: pa.Table) -> pa.Table:
        repeated = pa.DictionaryArray.from_arrays(pa.array([0] * table.num_rows), pa.array(["a" * size]))
        return table.set_column(table.column_names.index(column), column, repeated)

    return _table(name, change, store_schema=False)  # without it a dictionary of texts is read as texts


def _in_place_of_the_manifest(make: Callable[[Path], object]) -> Forgery:
    def forge(backup: Path) -> None:
        path = _manifest(backup)
        path.unlink()
        make(path)

    return forge


REFUSED: dict[str, Forgery] = {
    "no JSON": _write(b"\xff\xfe{"),
    "nested": _write(b"[" * 200_000),
    "a list": _write(b"[]"),
    "format": _edit(format=float("inf")),
    "tables": _edit(tables=5),
    "images": _edit(images="x"),
    "profile": _edit(profile=["a"]),
    "an unknown member": _edit(more=1),
    "id with dots": _edit(home_id="../../x"),
    "no id": _edit(home_id=None),
    "id with half a pair": _edit(home_id="a\ud800"),
    "long id": _edit(home_id="a" * 1000),
    "path with half a pair": _artifacts("artifacts/k/\ud800x"),
    "path of other bytes": _artifacts("artifacts/k/\udc80x"),
    "path that turns the line": _artifacts("artifacts/k/a\u202etxt"),
    "long name": _artifacts("artifacts/k/" + "a" * 300),
    "deep path": _artifacts("artifacts" + "/d" * 3000),
    "path that is none": _artifacts(5),
    "settings of the service": _artifacts("service.json"),
    "the same file twice": _artifacts("artifacts/k/x", "artifacts/k/x"),
    "twins but for case": _artifacts("artifacts/k/x", "artifacts/K/X"),
    "twins but for accents": _artifacts("artifacts/k/\u00e9", "artifacts/k/e\u0301"),
    "file and folder": _artifacts("artifacts/k", "artifacts/k/x"),
    "folder and file": _artifacts("artifacts/k/x/y", "artifacts/k/x"),
    "size as text": _artifacts("artifacts/k/x", size="8"),
    "no checksum": _artifacts("artifacts/k/x", checksum=None),
    "another checksum": _artifacts("artifacts/k/x", checksum="ab" * 32),
    "no Parquet": _table("images", b"no Parquet file"),
    "a column is missing": _table("receipts", lambda table: table.drop_columns(["checksum"])),
    "a path is missing": _column("receipts", "path", None),
    "a path is a number": _column("receipts", "path", 5),
    "no checksum of a file": _column("receipts", "checksum", "x"),
    "size of a file as text": _column("receipts", "size", "abc"),
    "no JSON in a row": _column("runs", "request", "{"),
    "two contents of a path": _column("receipts", "path", "a/b.parquet"),
    "pictures in no state": _column("images", "state", "x"),
    "runs in no state": _column("runs", "state", "x"),
    "roots of no kind": _column("roots", "kind", "x"),
    "twice the rows": _table("images", lambda table: pa.concat_tables([table, table])),
    "rows that unfold": _table("images", lambda table: table.take(pa.array([0] * 1_000_001))),
    "texts that unfold": _unfolding("images", "uri", 300 << 20),
    "no thumbnail": lambda backup: (backup / "thumbnails" / "service.json").write_text("{}"),
    "a pipe": _in_place_of_the_manifest(os.mkfifo),
    "a device": _in_place_of_the_manifest(lambda path: path.symlink_to("/dev/zero")),
    "a folder": _in_place_of_the_manifest(Path.mkdir),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_forged_snapshot_is_refused_and_nothing_of_it_is_in_the_home(backup: Path, tmp_path: Path, name: str) -> None:
    REFUSED[name](backup)
    told = run_here("backup", "restore", backup, "--no-load", "--output", "json", home=tmp_path / "home")
    error = json.loads(told.err)["error"]
    assert (told.code, error["code"]) in {(4, "bad_configuration"), (15, "embeddings_damaged")}, error
    assert error["hint"]
    assert not (tmp_path / "home" / FILE).exists()
    if name != "twice the rows":  # which the catalog alone notices, and takes back
        left = [path for place in ("embeddings", "artifacts", "thumbnails") for path in (tmp_path / "home" / place).rglob("*")]
        assert left == []
    listed = run_here("backup", "list", backup, "--output", "json", home=tmp_path / "home")
    assert listed.code == 0
    verified = run_here("backup", "verify", backup, "--output", "json", home=tmp_path / "home")
    assert verified.code in {0, 4, 15}


def test_a_damaged_snapshot_hides_no_other(backup: Path, original: Path, tmp_path: Path) -> None:
    (name,) = (path.name for path in (original / "snapshots").iterdir())
    later = backup / "snapshots" / f"9{name[1:]}"
    shutil.copytree(backup / "snapshots" / name, later)
    (later / "manifest.json").write_bytes(b"{")
    listed = run_here("backup", "list", backup, home=tmp_path / "home")
    assert (listed.code, f"{later.name}  cannot be used" in listed.out, f"{COUNT} pictures" in listed.out) == (0, True, True)
    told = run_here("backup", "restore", backup, home=tmp_path / "home")
    assert (told.code, "take another snapshot" in told.err) == (4, True)
    other = run_here("backup", "restore", backup, "--snapshot", name, "--no-load", "--output", "json", home=tmp_path / "home")
    assert (other.code, other.json["images"]) == (0, COUNT)


def _as_text(path: Path) -> None:
    path.write_text("no picture")


def _as_zeros(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _as_link(path: Path) -> None:
    """Put a link to a picture outside of the backup there, which no look at its first bytes refuses."""
    elsewhere = path.parents[3] / "private.jpg"
    Image.new("RGB", (8, 8)).save(elsewhere)
    path.symlink_to(elsewhere)


@pytest.mark.parametrize("make", [_as_text, _as_zeros, os.mkfifo, _as_link])
def test_a_thumbnail_that_is_none_is_left_out(backup: Path, tmp_path: Path, make: Callable[[Path], object]) -> None:
    """Thumbnails have no checksum; one that is a link would show a file of this machine to whoever may search."""
    first, *others = sorted((backup / "thumbnails").rglob("*.jpg"))
    first.unlink()
    make(first)
    told = run_here("backup", "restore", backup, "--no-load", home=tmp_path / "home")
    assert told.code == 0, told.err
    restored = {path.name for path in (tmp_path / "home" / "thumbnails").rglob("*.jpg")}
    assert restored == {path.name for path in others}


def test_a_file_of_the_same_name_and_size_is_not_taken_for_the_one_of_the_backup(backup: Path, tmp_path: Path) -> None:
    """What a refused restore of another backup left behind, say."""
    home, words = tmp_path / "home", ["backup", "restore", str(backup), "--no-load"]
    killed = lodestone(*words, home=home, LODESTONE_FAULT="restoring:2")
    assert killed.code == -9
    (victim, *_) = sorted((home / "embeddings").rglob("*.parquet"))
    content = victim.read_bytes()
    victim.write_bytes(bytes(len(content)))
    told = run_here(*words, home=home)
    assert told.code == 0, told.err
    assert victim.read_bytes() == content
