"""A cluster's head that stays away is said to be lost before Ray ends the process; one that comes back is not."""

from __future__ import annotations

import errno
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.ports import free_ports

from lodestone.errors import ClusterLostError, RunFailedError
from lodestone_jobs.head import HeadWatch, heard, patience


def listener(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


def watch(port: int, *, seconds: float) -> tuple[HeadWatch, threading.Event]:
    gone = threading.Event()
    return HeadWatch("the Ray cluster", {"its head": ("127.0.0.1", port)}, seconds=seconds, let_go=gone.set), gone


def test_a_head_that_stays_away_is_lost_and_ray_is_let_go_of() -> None:
    port = free_ports(1)[0]
    with listener(port):
        head, gone = watch(port, seconds=0.5)
        head.start()
        head.check_now()
        assert not gone.wait(2.5)
        head.check()
    try:
        assert gone.wait(180)
        with pytest.raises(ClusterLostError, match=rf"is lost: its head \(127\.0\.0\.1:{port}\) has not answered") as raised:
            head.check()
        assert "lodestone index --resume" in raised.value.hint
        assert (raised.value.code, raised.value.exit_code) == ("cluster_lost", 13)
    finally:
        head.stop()


def test_a_head_that_comes_back_in_time_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    port = free_ports(1)[0]
    head, gone = watch(port, seconds=30.0)
    with caplog.at_level(logging.WARNING):
        head.start()
        try:
            while not any("does not answer" in message for message in caplog.messages):
                assert not gone.wait(0.1)
            with listener(port):
                while not any("answers again" in message for message in caplog.messages):
                    assert not gone.wait(0.1)
                head.check()
                head.check_now()
        finally:
            head.stop()
    assert not gone.is_set()


@pytest.mark.parametrize(
    ("trouble", "ours"),
    [
        (OSError(errno.EMFILE, "Too many open files"), True),
        (OSError(errno.ENFILE, "Too many open files in system"), True),
        (OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address"), True),
        (OSError(errno.ENOBUFS, "No buffer space available"), True),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), True),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), False),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), False),
        (TimeoutError("timed out"), False),
    ],
)
def test_what_this_machine_lacks_is_not_held_against_the_head(
    trouble: OSError, monkeypatch: pytest.MonkeyPatch, *, ours: bool
) -> None:
    asked = threading.Semaphore(0)

    def fails(*_: object, **__: object) -> socket.socket:
        asked.release()
        raise trouble

    monkeypatch.setattr(socket, "create_connection", fails)
    monkeypatch.setattr("lodestone_jobs.head._ASK_SECONDS", 0.01)
    head, gone = watch(1, seconds=0.0)
    head.start()
    try:
        if not ours:
            assert gone.wait(180)
            return
        head.check_now()
        assert all(asked.acquire(timeout=180) for _ in range(3))  # of which two of the watch's own
        assert not gone.is_set()
        head.check()
    finally:
        head.stop()


def test_what_fails_while_the_head_does_not_answer_is_blamed_on_that() -> None:
    head, _ = watch(free_ports(1)[0], seconds=600.0)

    def fails() -> Iterator[int]:
        yield 1
        raise ConnectionError("some words of Ray's")

    taken = heard(fails(), head.check, head.check_now)
    assert next(taken) == 1
    with pytest.raises(ClusterLostError, match="does not answer"):
        next(taken)


def nothing() -> None:
    """Nothing is wrong."""


def test_a_source_that_is_silent_for_ever_does_not_keep_who_waits_for_it() -> None:
    release = threading.Event()

    def silent() -> Iterator[int]:
        release.wait()
        yield 1

    def lost() -> None:
        raise ClusterLostError("gone")

    try:
        with pytest.raises(ClusterLostError, match="gone"):
            next(heard(silent(), lost, nothing))
    finally:
        release.set()


def test_what_the_source_gives_and_raises_comes_through() -> None:
    def three() -> Iterator[int]:
        yield from (1, 2, 3)

    def shut_down() -> Iterator[int]:
        yield 1
        sys.exit(0)  # as Ray does in threads that wait for it

    assert list(heard(three(), nothing, nothing)) == [1, 2, 3]
    taken = heard(shut_down(), nothing, nothing)
    assert next(taken) == 1
    with pytest.raises(RunFailedError, match="Ray was shut down"):
        next(taken)


def test_nobody_is_asked_for_more_once_nobody_listens() -> None:
    asked: list[int] = []
    more, over = threading.Event(), threading.Event()

    def counting() -> Iterator[int]:
        try:
            for number in range(1000):
                asked.append(number)
                yield number
                more.wait()
        finally:
            over.set()

    taken = heard(counting(), nothing, nothing)
    assert next(taken) == 0
    taken.close()  # type: ignore[attr-defined]
    more.set()
    assert over.wait(180)
    assert len(asked) <= 2


@pytest.mark.parametrize(("rays", "ours"), [({}, 40.0), ({"RAY_gcs_rpc_server_reconnect_timeout_s": "20"}, 10.0)])
def test_the_watch_gives_up_before_ray_does(rays: dict[str, str], ours: float) -> None:
    assert patience(rays) == ours
    assert patience({"RAY_gcs_rpc_server_reconnect_timeout_s": "2"}) == 1.0


def test_what_is_logged_reaches_the_terminal_while_libraries_are_kept_from_it(tmp_path: Path) -> None:
    script = (
        "import logging, os, sys; from pathlib import Path\n"
        "from lodestone_jobs.quiet import stderr_of_libraries\n"
        "logging.basicConfig(level=logging.WARNING, stream=sys.stderr)\n"
        "with stderr_of_libraries(Path(sys.argv[1])):\n"
        "    os.write(2, b'noise\\n'); logging.warning('told')\n"
        "logging.warning('after')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "log")], capture_output=True, text=True, check=True, timeout=240
    )
    assert done.stderr.splitlines() == ["WARNING:root:told", "WARNING:root:after"]
    assert (tmp_path / "log").read_text() == "noise\n"
