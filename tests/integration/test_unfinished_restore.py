"""A killed restore or rebuild goes on with the same command, and the home is refused to all others until then."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.cli import run_here
from tests.support.home import image_ids, open_runtime
from tests.support.home_copies import copy_folder
from tests.support.pictures import write_photos

from lodestone.backup.create import create_backup
from lodestone.backup.restore import restore_backup
from lodestone.catalog.records import TagRecord
from lodestone.config.unfinished import FILE
from lodestone.errors import HomeUnfinishedError
from lodestone.files.opening import open_area
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest

COUNT = 6
# Where the process is killed: among the files, with the catalog made, among the vectors, and with all of them loaded.
_LONGER = (pytest.mark.nightly, pytest.mark.slow)
RESTORE_POINTS = (
    "restoring:2",
    pytest.param("catalog-made:1", marks=_LONGER),
    pytest.param("loading:1", marks=_LONGER),
    "before-promotion:1",
)
REBUILD_POINTS = (
    pytest.param("catalog-made:1", marks=_LONGER),
    "loading:1",
    pytest.param("before-promotion:1", marks=_LONGER),
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a home, and a backup of it."""
    folder = tmp_path_factory.mktemp("original")
    write_photos(folder / "photos", COUNT)
    with open_runtime(folder) as runtime:
        index_paths(runtime, IndexRequest((folder / "photos",)))
        runtime.catalog.add_tags([TagRecord.new(one, "a dog", "user") for one in image_ids(runtime).values()])
        create_backup(runtime, open_area(folder / "backup"))
    return folder


def _killed(words: list[str], home: Path, fault: str) -> None:
    script = "import sys; from lodestone_cli.main import main; sys.exit(main())"
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home.parent), "LODESTONE_HOME": str(home), "LODESTONE_FAULT": fault}
    done = subprocess.run([sys.executable, "-c", script, *words], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -9, (fault, done.stdout, done.stderr)


def _assert_refused(home: Path, words: str) -> None:
    for others in (["search", "a dog"], ["status"], ["corpus", "list"], ["index", str(home.parent / "photos")], ["verify"]):
        told = run_here(*others, "--output", "json", home=home)
        error = json.loads(told.err)["error"]
        assert (told.code, error["code"]) == (14, "home_unfinished"), (others, told.out, told.err)
        assert words in error["hint"]
    assert words in run_here("doctor", home=home).out


def _found(home: Path) -> int:
    told = run_here("search", "a dog", "--limit", "50", "--output", "json", home=home)
    assert told.code == 0, told.err
    return len(told.json["hits"])


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("fault", RESTORE_POINTS)
def test_a_killed_restore_refuses_all_others_and_goes_on_with_the_same_command(
    original: Path, tmp_path: Path, fault: str
) -> None:
    home, words = tmp_path / "home", ["backup", "restore", str(original / "backup")]
    _killed(words, home, fault)
    _assert_refused(home, f"lodestone backup restore {original / 'backup'}")

    told = run_here(*words, "--output", "json", home=home)
    assert told.code == 0, told.err
    assert (told.json["images"], told.json["points"]) == (COUNT, 2 * COUNT)
    assert told.json["resumed"] == (fault != "restoring:2")
    assert not (home / FILE).exists()
    assert _found(home) == COUNT
    again = run_here(*words, "--output", "json", home=home)
    assert (again.code, "is not empty" in again.err) == (4, True)


@pytest.mark.parametrize("fault", REBUILD_POINTS)
def test_a_killed_rebuild_refuses_all_others_and_goes_on_with_the_same_command(
    original: Path, tmp_path: Path, fault: str
) -> None:
    home, words = tmp_path / "home", ["catalog", "rebuild"]
    copy_folder(original / "home", home)
    (home / "catalog.sqlite").unlink()
    _killed(words, home, fault)
    _assert_refused(home, "lodestone catalog rebuild")

    told = run_here(*words, "--output", "json", home=home)
    assert told.code == 0, told.err
    assert (told.json["images"], told.json["points"], told.json["resumed"]) == (COUNT, 2 * COUNT, True)
    assert not (home / FILE).exists()
    assert _found(home) == COUNT
    assert run_here(*words, home=home).code == 4  # the catalog is not lost


def test_a_home_that_is_restored_from_one_backup_is_not_filled_from_another(original: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    _killed(["backup", "restore", str(original / "backup")], home, "restoring:1")
    shutil.copytree(original / "backup", tmp_path / "other")
    with open_runtime(original) as runtime:
        create_backup(runtime, open_area(original / "backup"))  # a later snapshot does not take the place of the first
    for words in (["backup", "restore", str(tmp_path / "other")], ["catalog", "rebuild"]):
        told = run_here(*words, "--output", "json", home=home)
        assert (told.code, json.loads(told.err)["error"]["code"]) == (14, "home_unfinished")
    (first, last) = sorted(path.name for path in (original / "backup" / "snapshots").iterdir())
    named = run_here("backup", "restore", str(original / "backup"), "--snapshot", last, home=home)
    assert named.code == 14
    assert first in named.err
    assert run_here("backup", "restore", str(original / "backup"), "--output", "json", home=home).json["snapshot"] == first
    shutil.rmtree(original / "backup" / "snapshots" / last)


def test_what_was_left_to_the_next_index_run_is_not_unfinished(original: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert run_here("backup", "restore", str(original / "backup"), "--no-load", home=home).code == 0
    assert run_here("status", home=home).code == 0


def test_a_record_that_cannot_be_read_is_no_permission(original: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    copy_folder(original / "home", home)
    for content in ("", "[]", '{"command": "lodestone backup restore", "stage": "lost"}', '{"stage": "vectors"}'):
        (home / FILE).write_text(content)
        with open_runtime(tmp_path) as runtime, pytest.raises(HomeUnfinishedError, match="cannot be read"):
            _ = runtime.catalog
    (home / FILE).unlink()
    with open_runtime(tmp_path) as runtime:
        assert runtime.catalog.count_images() == COUNT


def test_a_damaged_backup_leaves_no_unfinished_home(original: Path, tmp_path: Path) -> None:
    shutil.copytree(original / "backup", tmp_path / "backup")
    table = next((tmp_path / "backup").glob("snapshots/*/catalog/images-*.parquet"))
    table.write_bytes(table.read_bytes()[:-1])
    with open_runtime(tmp_path) as runtime:
        with pytest.raises(Exception, match="bytes instead of"):
            restore_backup(runtime, open_area(tmp_path / "backup"))
        assert not (runtime.home.path / FILE).exists()
