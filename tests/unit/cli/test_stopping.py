"""What Ctrl-C, SIGTERM and a closed terminal do to a long command."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import RunState
from lodestone.indexing.tasks import this_worker
from lodestone_cli.stopping import outcome_of, stopped_by_signals


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


def test_ctrl_c_is_told_what_is_kept_and_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), stopped_by_signals(lambda: "8 of 24 pictures are kept"):
        os.kill(os.getpid(), signal.SIGINT)
    assert capsys.readouterr().err == "8 of 24 pictures are kept\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def press(done: list[str], *, under_way: int | None, times: int) -> None:
    """Press Ctrl-C in work of which so much is under way; None for work that does not honour the request."""
    with stopped_by_signals() as stop:
        with nullcontext() if under_way is None else stop.honoured(lambda: under_way):
            for time in range(times):
                os.kill(os.getpid(), signal.SIGINT)
                done.append(f"went on after {time + 1}")
        done.append("came to its end")


@pytest.mark.parametrize(
    ("under_way", "times", "went_on"), [(3, 1, ["went on after 1"]), (3, 2, ["went on after 1"]), (0, 1, []), (None, 1, [])]
)
def test_the_first_ctrl_c_lets_what_is_under_way_come_to_its_end_and_the_second_does_not(
    under_way: int | None, times: int, went_on: list[str]
) -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        press(done, under_way=under_way, times=times)
    assert done == went_on


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(tmp_path / "catalog.sqlite") as opened:
        yield opened


@pytest.mark.parametrize(
    ("corpus", "home", "command"),
    [
        ("default", None, "lodestone index --resume"),
        ("family", None, "lodestone index --resume --corpus family"),
        ("our trip", Path("/media/old disk"), "lodestone index --resume --corpus 'our trip' --home '/media/old disk'"),
    ],
)
def test_the_command_that_goes_on_names_the_corpus_and_the_home(
    catalog: Catalog, corpus: str, home: Path | None, command: str
) -> None:
    run = catalog.start_run("index", catalog.ensure_corpus(corpus).corpus_id)
    catalog.update_run(run.run_id, stage="embed")
    catalog.finish_run(run.run_id, RunState.INTERRUPTED)
    assert (
        outcome_of(lambda: catalog, corpus, home)
        == f"all 0 pictures are kept, but not all can be found yet; `{command}` goes on"
    )


def test_a_run_whose_end_could_not_be_recorded_is_told_all_the_same(catalog: Catalog) -> None:
    catalog.start_run("index", catalog.ensure_corpus("default").corpus_id, worker=this_worker())
    assert (
        outcome_of(lambda: catalog, "default") == "the run was still looking for pictures; `lodestone index --resume` goes on"
    )


def test_where_no_run_was_begun_there_is_none_to_resume(catalog: Catalog) -> None:
    assert outcome_of(lambda: catalog, "default") == "no run was begun: run the same command again"
    run = catalog.start_run("index", catalog.ensure_corpus("default").corpus_id)
    catalog.finish_run(run.run_id, RunState.DONE)
    assert "run the same command again" in outcome_of(lambda: catalog, "default")
