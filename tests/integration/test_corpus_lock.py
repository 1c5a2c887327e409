"""Two index runs of one corpus keep out of each other's way, on one machine and on several that share a catalog server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.postgres_server import PostgresServer, run_postgres

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.database.server_lock import ServerLock
from lodestone.config.home import Home
from lodestone.errors import StoreLockedError
from lodestone.indexing.locking import corpus_lock

_HOLDER = """
import sys
from pathlib import Path
from lodestone.catalog.catalog import Catalog
from lodestone.config.home import Home
from lodestone.indexing.locking import corpus_lock
from lodestone.indexing.tasks import this_worker

catalog, home = Catalog.open(sys.argv[1]), Home(Path(sys.argv[2]))
corpus = catalog.ensure_corpus("photos")
with corpus_lock(home, corpus, catalog=catalog):
    run = catalog.start_run("index", corpus.corpus_id, worker=this_worker())
    print(run.run_id, this_worker(), flush=True)
    sys.stdin.read()
"""


def hold(location: str, home: Path) -> tuple[subprocess.Popen[str], str, str]:
    """A process that holds the corpus `photos`; the id of its run, and its name for itself."""
    command = [sys.executable, "-c", _HOLDER, location, str(home)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    run_id, worker = process.stdout.readline().split()
    return process, run_id, worker


@pytest.fixture
def server(postgres_binaries: Path, tmp_path: Path) -> Iterator[PostgresServer]:
    with run_postgres(tmp_path, binaries=postgres_binaries) as running:
        yield running


def test_the_second_run_on_a_machine_is_told_which_one_is_first(tmp_path: Path) -> None:
    location = f"sqlite:///{tmp_path / 'catalog.sqlite'}"
    process, run_id, worker = hold(location, tmp_path)
    try:
        with Catalog.open(location) as catalog:
            corpus = catalog.ensure_corpus("photos")
            with (
                pytest.raises(StoreLockedError, match="being indexed") as caught,
                corpus_lock(Home(tmp_path), corpus, catalog=catalog),
            ):
                pass
            assert run_id in caught.value.message and worker in caught.value.message
            assert (caught.value.details["run_id"], caught.value.details["worker"]) == (run_id, worker)
            with corpus_lock(Home(tmp_path), catalog.ensure_corpus("others"), catalog=catalog):
                pass
            process.kill()
            process.wait()
            with corpus_lock(Home(tmp_path), corpus, catalog=catalog):
                pass
            with corpus_lock(Home(tmp_path), corpus):
                pass
    finally:
        process.kill()
        process.communicate()


@pytest.mark.server
def test_the_second_run_on_another_machine_is_told_which_one_is_first(server: PostgresServer, tmp_path: Path) -> None:
    process, run_id, worker = hold(server.url, tmp_path / "one")
    try:
        with Catalog.open(server.url) as catalog:
            corpus, home = catalog.ensure_corpus("photos"), Home(tmp_path / "two")
            with pytest.raises(StoreLockedError, match="being indexed") as caught, corpus_lock(home, corpus, catalog=catalog):
                pass
            assert run_id in caught.value.message and worker in caught.value.message
            process.kill()
            process.wait()
            until = time.monotonic() + 180  # the server notices the closed connection at its next look
            while True:
                try:
                    with corpus_lock(home, corpus, catalog=catalog):
                        break
                except StoreLockedError:
                    assert time.monotonic() < until
                    time.sleep(0.05)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.server
def test_a_lock_outlives_the_restart_of_its_server(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ServerLock.__init__, "__kwdefaults__", {"seconds": 0.05})
    with Catalog.open(server.url) as mine, Catalog.open(server.url) as others:
        corpus = mine.ensure_corpus("photos")
        with corpus_lock(Home(tmp_path / "one"), corpus, catalog=mine):
            server.restart()
            me = f"{socket.gethostname()}:{os.getpid()}"
            other = ServerLock(others._engine, f"corpus {corpus.corpus_id}", worker="other:1")
            until = time.monotonic() + 180
            others.ping()
            while other.holder() != me[-53:]:
                assert time.monotonic() < until, "nobody took the lock again"
                time.sleep(0.05)
            with pytest.raises(StoreLockedError, match=me), corpus_lock(Home(tmp_path / "two"), corpus, catalog=others):
                pass
        with corpus_lock(Home(tmp_path / "two"), corpus, catalog=others):
            pass


@pytest.mark.server
def test_a_lock_that_another_took_meanwhile_is_not_taken_back(server: PostgresServer) -> None:
    with Catalog.open(server.url) as catalog:
        first = ServerLock(catalog._engine, "x", worker="one:1", seconds=0.05)
        second = ServerLock(catalog._engine, "x", worker="two:2", seconds=0.05)
        assert first.acquire()
        assert not ServerLock(catalog._engine, "x", worker="three:3").acquire()
        assert ServerLock(catalog._engine, "x", worker="").holder() == "one:1"
        first.release()
        assert second.acquire()
        assert second.holder() == "two:2"
        second.release()
        assert second.holder() == ""
