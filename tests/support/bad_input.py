"""What tests of bad input share: the command line, what one clear error looks like, and a small home."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import Finished, lodestone, run_here
from tests.support.home import open_runtime
from tests.support.home_copies import copy_folder
from tests.support.photos import CAT, COFFEE, ROCKET, photo

from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest

SETTINGS = {
    "LODESTONE_INDEX__EXECUTOR": "inline",
    "LODESTONE_MODELS__THREADS": "1",
    "LODESTONE_STORE__LOCK_TIMEOUT_S": "0.3",
}


def run(*arguments: str | Path, home: Path, **more: str) -> Finished:
    """The command line in this process: its imports are paid for once."""
    return run_here(*arguments, home=home, **{**SETTINGS, **more})


def run_apart(*arguments: str | Path, home: Path, prefix: tuple[str, ...] = (), timeout: float = 240, **more: str) -> Finished:
    """The command line in a process of its own."""
    return lodestone(*arguments, home=home, prefix=prefix, timeout=timeout, **{**SETTINGS, **more})


def assert_one_clear_error(done: Finished, exit_code: int, code: str, *names: str) -> None:
    assert done.code == exit_code, done.err
    last = done.err[done.err.rindex("error [") :]  # progress may come before it
    assert last.startswith(f"error [{code}]")
    assert "\n  hint: " in last
    assert "Traceback" not in done.err
    assert done.out == ""
    for name in names:
        assert name in last


def assert_one_clear_json_error(done: Finished, exit_code: int, code: str) -> None:
    assert done.code == exit_code, done.err
    error = json.loads(done.err.splitlines()[-1])["error"]
    assert error["code"] == code
    assert error["detail"]
    assert error["hint"]
    assert "Traceback" not in done.err
    assert done.out == ""


def index(folder: Path, *paths: Path, **options: Any) -> IndexReport:
    with open_runtime(folder) as runtime:
        return index_paths(runtime, IndexRequest(tuple(paths), **options))


@pytest.fixture(name="photos", scope="module")
def three_photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for name in (CAT, COFFEE, ROCKET):
        photo(name).save(folder / Path(name).with_suffix(".jpg"))
    return folder


@pytest.fixture(name="base", scope="module")
def small_base(tmp_path_factory: pytest.TempPathFactory, photos: Path) -> Path:
    """A folder whose `home` holds three photos."""
    base = tmp_path_factory.mktemp("base")
    assert index(base, photos, corpus="photos").images == 3
    return base


@pytest.fixture(name="home")
def shared_home(base: Path) -> Path:
    """The shared home; tests leave it as it is."""
    return base / "home"


@pytest.fixture(name="own")
def own_home(base: Path, tmp_path: Path) -> Path:
    """A folder with a copy of the shared home, to be changed."""
    copy_folder(base / "home", tmp_path / "own" / "home")
    return tmp_path / "own"


def best(words: str, home: Path) -> str:
    done = run("search", words, "--limit", "1", "--output", "json", home=home)
    assert done.code == 0, done.err
    return str(done.json["hits"][0]["uri"])
