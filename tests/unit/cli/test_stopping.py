"""What SIGTERM and a closed terminal do to a long command."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lodestone_cli.stopping import resume_command, stopped_by_signals


@pytest.fixture(autouse=True)
def nobody_elses_handlers() -> Iterator[None]:
    """A process that had Ray in it keeps Ray's."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_work_ends_in_order_with_the_signals_exit_code(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    let_go = []

    def work() -> None:
        try:
            os.kill(os.getpid(), number)
        finally:
            let_go.append(signal.getsignal(number))

    with pytest.raises(SystemExit) as stopped, stopped_by_signals():
        work()
    assert stopped.value.code == 128 + number
    assert let_go == [signal.SIG_DFL]  # a second one ends it at once
    assert signal.getsignal(number) is signal.SIG_DFL
    assert number.name in capsys.readouterr().err


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    try:
        with stopped_by_signals():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_threads_leave_the_handlers_alone() -> None:
    found = []

    def work() -> None:
        with stopped_by_signals():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.SIG_DFL]


def test_ctrl_c_is_told_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), stopped_by_signals():
        raise KeyboardInterrupt
    assert "--resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("corpus", "home", "command"),
    [
        ("default", None, "lodestone index --resume"),
        ("family", None, "lodestone index --resume --corpus family"),
        ("our trip", Path("/media/old disk"), "lodestone index --resume --corpus 'our trip' --home '/media/old disk'"),
    ],
)
def test_the_command_that_goes_on_names_the_corpus_and_the_home(
    corpus: str, home: Path | None, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt), stopped_by_signals(resume_command(corpus, home)):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == f"what is finished is kept: `{command}` goes on\n"
