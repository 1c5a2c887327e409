"""Commands say what is wrong when another process has the home, its service has gone, or a newer Lodestone wrote it."""

from __future__ import annotations

import hashlib
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.bad_input import assert_one_clear_error, best, own_home, run, shared_home, small_base, three_photos  # noqa: F401 - fixtures
from tests.support.pictures import write_photos

from lodestone.config.home import Home
from lodestone.errors import ServiceUnavailableError
from lodestone.home.running_service.address import ServiceAddress, find_service
from lodestone.home.running_service.client import ServiceClient
from lodestone_schemas.api import SearchRequest

# A second opener

# A real index run that stops when it begins to load, with the store's lock, until a line comes in.
OWNER = """
import sys
from pathlib import Path
from tests.support.home import settings_for
from lodestone.indexing.progress import RunStage
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.run.index_run import index_paths
from lodestone.home.runtime import Runtime

waited = False
def progress(event):
    global waited
    if event.stage is RunStage.LOAD and not waited:
        waited = True
        print("loading", flush=True)
        sys.stdin.readline()

with Runtime.open(settings_for(Path(sys.argv[1])), purpose="lodestone index") as runtime:
    report = index_paths(runtime, IndexRequest((Path(sys.argv[2]),), corpus="owner"), progress=progress)
    print(report.images, flush=True)
"""


def test_a_second_opener_is_told_who_writes_and_nobody_loses_anything(own: Path, tmp_path: Path) -> None:
    write_photos(tmp_path / "owners", 10)
    write_photos(tmp_path / "others", 4)
    home = own / "home"
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(own), str(tmp_path / "owners")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline().strip() == "loading"
        who = f"process {owner.pid} (lodestone index)"
        assert_one_clear_error(run("search", "a cat", home=home), 6, "store_locked", who)
        others = ("index", tmp_path / "others", "--corpus", "others")
        assert_one_clear_error(run(*others, home=home), 6, "store_locked", who)
        same = run("index", tmp_path / "owners", "--corpus", "owner", home=home)
        assert_one_clear_error(same, 6, "store_locked", "being indexed")
        assert run("status", home=home).code == 0  # the catalog can be read meanwhile
        assert owner.communicate("go on\n", timeout=240)[0].strip() == "10"
        assert owner.returncode == 0
    finally:
        owner.kill()
    again = run(*others, "--output", "json", home=home)
    assert again.code == 0, again.err
    assert again.json["images"] == 4
    assert again.json["counts"].get("embedded", 0) == 0  # the pictures were embedded before the store was refused
    found = run("search", "a cat", "--limit", "100", "--output", "json", home=home).json["hits"]
    assert len(found) == 3 + 10 + 4
    assert found[0]["uri"] == "chelsea.jpg"


# A service that isn't there


@pytest.fixture
def silent() -> Iterator[int]:
    """A port where somebody listens and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _dead_pid() -> int:
    ended = subprocess.Popen(["true"])
    ended.wait()
    return ended.pid


def _address(port: int, pid: int) -> ServiceAddress:
    return ServiceAddress(f"http://127.0.0.1:{port}", pid, "token", "0.1.0", datetime.now(UTC))


@pytest.mark.nightly_beyond(2)
@pytest.mark.parametrize("kind", ["dead process", "nobody listens", "nobody answers", "garbage"])
def test_without_the_service_that_was_there_commands_do_the_work_themselves(own: Path, silent: int, kind: str) -> None:
    home = Home(own / "home")
    if kind == "garbage":
        home.service.write_bytes(b'{"url": "http://127.0.0.1:1", "pid": \xff')
    else:
        port = silent if kind == "nobody answers" else _closed_port()
        _address(port, _dead_pid() if kind == "dead process" else os.getpid()).write(home)
    assert find_service(home, timeout_s=0.5) is None
    assert best("a cat", home.path) == "chelsea.jpg"
    assert run("status", "--output", "json", home=home.path).json["service"] is None


def test_a_client_of_a_service_that_has_gone_says_so_and_what_to_do() -> None:
    with ServiceClient(_address(_closed_port(), os.getpid())) as client:
        asked = (
            lambda: client.search(SearchRequest(query="a cat")),
            lambda: list(client.stream(SearchRequest(query="a cat"))),
            client.corpora,
            client.status,
            lambda: list(client.sync()),
        )
        for ask in asked:
            with pytest.raises(ServiceUnavailableError, match=r"127\.0\.0\.1") as error:
                ask()
            assert "lodestone serve" in error.value.hint
            assert (error.value.code, error.value.exit_code) == ("service_unavailable", 8)


def test_status_shows_what_the_catalog_knows_while_the_store_is_away(home: Path) -> None:
    away = {"LODESTONE_STORE__KIND": "server", "LODESTONE_STORE__URL": f"http://127.0.0.1:{_closed_port()}"}
    done = run("status", home=home, **away)
    assert done.code == 0
    assert "does not answer" in done.out
    assert "not built" not in done.out
    facts = run("status", "--output", "json", home=home, **away).json
    assert [corpus["images"] for corpus in facts["corpora"]] == [3]
    assert facts["store"]["ok"] is False


# A home of a newer version


def _contents(home: Path) -> dict[str, str]:
    """Content of every file but those that come and go with a database connection."""
    files = (path for path in sorted(home.rglob("*")) if path.is_file() and not path.name.endswith(("-wal", "-shm", ".lock")))
    return {str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("what", ["home", "catalog"])
def test_a_home_of_a_newer_version_is_refused_and_left_alone(own: Path, photos: Path, what: str) -> None:
    home = own / "home"
    if what == "home":
        (home / "home.json").write_text('{"format": 999, "written_by": "9.9"}', encoding="utf-8")
    else:
        with sqlite3.connect(home / "catalog.sqlite") as database:
            database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.close()
    before = _contents(home)
    for arguments in (
        ("search", "a cat"),
        ("index", photos),
        ("status",),
        ("corpus", "list"),
        ("similar", photos / "coffee.jpg"),
    ):
        assert_one_clear_error(run(*arguments, home=home), 5, "home_too_new", "999", "upgrade")
    assert _contents(home) == before
