"""Several processes and threads use one catalog at once, and whoever waits too long gets a clear error."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.catalogs import make_root, picture

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.database import engine
from lodestone.catalog.records import ImageRecord, ImageState, RunState
from lodestone.errors import CatalogError

_WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import ImageRecord, ImageState

path, name, batches = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
sys.stdin.readline()
with Catalog.open(path) as catalog:
    corpus = catalog.ensure_corpus("shared")
    root = catalog.ensure_root(corpus.corpus_id, f"/{name}/pictures")
    run = catalog.start_run("index", corpus.corpus_id)
    for batch in range(batches):
        uris = [f"{batch}-{number}.jpg" for number in range(50)]
        ids = catalog.mint_image_ids(corpus.corpus_id, root.name, uris)
        new = [ImageRecord(ids[u], corpus.corpus_id, root.root_id, u, "h", 1, 1, ImageState.PENDING) for u in uris]
        assert catalog.add_images(new) == 50
        catalog.update_images([replace(image, state=ImageState.ACTIVE) for image in new])
        catalog.update_run(run.run_id, counts={"batches": batch + 1})
"""


def _start(path: Path, name: str, batches: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _WRITER, str(path), name, str(batches)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_processes_that_open_a_new_catalog_and_write_at_once_all_succeed(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    writers = [_start(path, name, 20) for name in ("a", "b", "c")]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=240)
        assert writer.returncode == 0, errors
    with Catalog.open(path) as catalog:
        corpus = catalog.corpus("shared")
        assert sorted(root.name for root in catalog.roots(corpus.corpus_id)) == ["pictures", "pictures-2", "pictures-3"]
        assert catalog.count_images(corpus.corpus_id, ImageState.ACTIVE) == 3 * 20 * 50
        assert [run.counts for run in catalog.runs()] == [{"batches": 20}] * 3


def test_a_killed_writer_leaves_whole_batches(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    Catalog.open(path).close()
    writer = _start(path, "a", 100_000)
    assert writer.stdin is not None
    writer.stdin.write("go\n")
    writer.stdin.flush()
    with Catalog.open(path) as catalog:
        deadline = time.monotonic() + 180
        while catalog.count_images() < 300 and time.monotonic() < deadline:
            time.sleep(0.02)
        writer.kill()
        writer.communicate()
        assert catalog.count_images() >= 300
        assert catalog.count_images() % 50 == 0
        (run,) = catalog.runs()
        assert run.state is RunState.RUNNING
        catalog.ensure_corpus("still writable")


def test_a_reader_goes_on_while_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with Catalog.open(path) as catalog:
        catalog.ensure_corpus("cats")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE corpora SET name = 'dogs'")
        assert catalog.corpus("cats").name == "cats"
        other.execute("COMMIT")
        other.close()
        assert catalog.corpus("dogs").name == "dogs"


def test_a_writer_waits_for_its_turn(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with Catalog.open(path) as catalog:
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.5, lambda: other.execute("COMMIT")).start()
        assert catalog.ensure_corpus("cats").name == "cats"
        other.close()


def test_a_lock_that_never_ends_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_BUSY_SECONDS", 0)
    path = tmp_path / "catalog.sqlite"
    with Catalog.open(path) as catalog:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CatalogError, match="locked"):
            catalog.ensure_corpus("cats")
        other.execute("ROLLBACK")
        other.close()
        catalog.ensure_corpus("cats")


def test_threads_share_one_catalog(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        _, root = make_root(catalog)

        def write(worker: int) -> int:
            images: list[ImageRecord] = [picture(root, f"{worker}/{number}.jpg") for number in range(200)]
            added = sum(catalog.add_images(images[start : start + 20]) for start in range(0, 200, 20))
            assert len(catalog.images_by_uri(root.root_id, [image.uri for image in images])) == 200
            return added

        with ThreadPoolExecutor(12) as pool:
            assert list(pool.map(write, range(12))) == [200] * 12
        assert catalog.count_images() == 2_400


def test_waiting_too_long_for_a_connection_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        pool = catalog._engine.pool
        monkeypatch.setattr(pool, "_timeout", 0.05)
        monkeypatch.setattr(pool, "_max_overflow", 0)
        taken = [catalog._engine.connect() for _ in range(pool.size())]  # type: ignore[attr-defined]
        with pytest.raises(CatalogError, match="busy"):
            catalog.ping()
        for connection in taken:
            connection.close()
        catalog.ping()
