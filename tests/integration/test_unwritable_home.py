"""A home on a full or read-only disk can be searched, and every change of it says why it cannot be made."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.cli import run_here
from tests.support.home import open_runtime, vectors_of
from tests.support.pictures import write_photos

from lodestone.catalog import catalog as catalog_module
from lodestone.catalog.catalog import Catalog
from lodestone.errors import CatalogError, ConfigurationError, LodestoneError, OutOfSpaceError, StoreError
from lodestone.home.runtime import Runtime
from lodestone.indexing.locking import corpus_lock
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.store.edge import store as store_module
from lodestone.store.ownership import StoreOwnership
from lodestone_schemas.collections import CollectionSpec

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
READ_ONLY = OSError(errno.EROFS, os.strerror(errno.EROFS))
_acquire = StoreOwnership.acquire


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an indexed home of six pictures; no test changes it."""
    folder = tmp_path_factory.mktemp("unwritable")
    write_photos(folder / "photos", 6)
    with open_runtime(folder) as runtime:
        index_paths(runtime, IndexRequest((folder / "photos",)))
    return folder


@pytest.fixture(params=["full", "read-only"])
def unwritable(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the system says of the disk under the home; temporary files are elsewhere. (A slow test has real disks.)"""
    said, refusal = (FULL, OutOfSpaceError("no space left for the catalog")) if request.param == "full" else (READ_ONLY, None)

    def acquire(self: StoreOwnership) -> None:
        if self._root.is_relative_to(home):
            raise said
        _acquire(self)

    real, calls = catalog_module.ensure_head, []

    def ensure_head(*arguments: object, **options: object) -> None:
        calls.append(arguments)
        if len(calls) == 1:
            raise refusal or CatalogError("the catalog cannot be written: attempt to write a readonly database")
        real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(StoreOwnership, "acquire", acquire)
    monkeypatch.setattr(catalog_module, "ensure_head", ensure_head)
    if refusal is None:
        monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    return str(request.param)


def _copies() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"lodestone-store-{os.getpid()}-*"))


def test_a_search_answers_from_a_home_that_cannot_be_written_and_says_once_that_nothing_is_recorded(
    home: Path, unwritable: str
) -> None:
    before = {path: path.stat().st_mtime_ns for path in (home / "home").rglob("*")}
    told = run_here("search", "dots", "--output", "json", home=home / "home")
    assert told.code == 0, (unwritable, told.err)
    assert len(told.json["hits"]) == 6
    assert len([warning for warning in told.json["warnings"] if "not recorded" in warning]) == 1
    assert {path: path.stat().st_mtime_ns for path in (home / "home").rglob("*")} == before
    assert _copies() == []


def test_the_status_of_a_home_that_cannot_be_written_is_told(home: Path, unwritable: str) -> None:
    told = run_here("status", "--output", "json", home=home / "home")
    assert told.code == 0, (unwritable, told.err)
    assert told.json["corpora"][0]["images"] == 6
    assert all(space["current"] for space in told.json["spaces"].values())


def test_changes_of_it_are_refused_with_the_reason(home: Path, unwritable: str) -> None:
    wanted: type[LodestoneError] = OutOfSpaceError if unwritable == "full" else StoreError
    with open_runtime(home) as runtime:
        vectors = vectors_of(runtime, "bridge")
        assert len(vectors) == 6
        collection = runtime.store.aliases()["bridge"]
        changes: list[Callable[[], object]] = [
            lambda: runtime.store.delete(collection, list(vectors)),
            lambda: runtime.store.create(CollectionSpec(name="new", dim=4)),
            lambda: runtime.store.drop(collection),
            lambda: runtime.store.build(collection),
        ]
        for change in changes:
            with pytest.raises(wanted):
                change()
        with pytest.raises(OutOfSpaceError if unwritable == "full" else CatalogError):
            runtime.catalog.ensure_corpus("new")
        assert len(vectors_of(runtime, "bridge")) == 6


def test_a_catalog_whose_log_was_not_written_back_is_not_read_without_it(home: Path, tmp_path: Path, unwritable: str) -> None:
    """Reading the file alone would miss what is in the log."""
    path = tmp_path / "catalog.sqlite"
    path.write_bytes((home / "home" / "catalog.sqlite").read_bytes())
    path.with_name("catalog.sqlite-wal").write_bytes(b"something")
    with pytest.raises(OutOfSpaceError if unwritable == "full" else CatalogError):
        Catalog.open(path, may_only_read=True)


def test_a_service_refuses_such_a_home_because_it_would_stay_on_a_copy(home: Path, unwritable: str) -> None:
    with open_runtime(home) as runtime:
        runtime.may_only_read = False
        with pytest.raises(OutOfSpaceError if unwritable == "full" else CatalogError):
            _ = runtime.catalog
        with pytest.raises(OutOfSpaceError if unwritable == "full" else StoreError):
            _ = runtime.store  # (the catalog opens at the second attempt)


def test_without_room_for_a_copy_the_first_reason_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def acquire(_: StoreOwnership) -> None:
        raise FULL

    def no_room(*_: object) -> Path:
        raise OutOfSpaceError("no space left in /tmp")

    monkeypatch.setattr(StoreOwnership, "acquire", acquire)
    monkeypatch.setattr(store_module, "readable_copy", no_room)
    with open_runtime(home) as runtime, pytest.raises(OutOfSpaceError, match="no space left for the vector store"):
        _ = runtime.store


@pytest.mark.parametrize(
    ("said", "kind"), [(FULL, OutOfSpaceError), (READ_ONLY, ConfigurationError)], ids=["full", "read-only"]
)
def test_a_corpus_lock_that_cannot_be_written_is_one_of_our_errors(
    home: Path, monkeypatch: pytest.MonkeyPatch, said: OSError, kind: type[LodestoneError]
) -> None:
    with open_runtime(home) as runtime:
        corpus = runtime.catalog.corpus("default")
        with monkeypatch.context() as patched:
            patched.setattr(Path, "write_text", _raising(said))
            with pytest.raises(kind) as caught, corpus_lock(runtime.home, corpus):
                raise AssertionError("the corpus must not be held")
        assert caught.value.hint
        with pytest.raises(OSError, match="No space left"), corpus_lock(runtime.home, corpus):
            raise FULL  # of the work under the lock, which has its own messages


def _raising(error: OSError) -> Callable[..., int]:
    def write_text(*_: object, **__: object) -> int:
        raise error

    return write_text


def test_opening_for_reading_is_only_for_disks_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with Runtime.open(open_runtime(tmp_path).settings) as runtime:
        runtime.catalog.ensure_corpus("default")
    path = tmp_path / "home" / "catalog.sqlite"
    path.write_bytes(b"no database" * 500)
    with pytest.raises(CatalogError, match="not a database"):
        Catalog.open(path, may_only_read=True)
