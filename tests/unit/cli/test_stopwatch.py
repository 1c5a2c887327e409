"""Tests of the time that a command says its user waited: from the start of the program, not of the search."""

from __future__ import annotations

import sys
import time

import pytest

from lodestone_cli import main
from lodestone_cli.stopwatch import stopwatch, waited_seconds


def test_it_counts_from_the_moment_that_the_user_started_the_command() -> None:
    with stopwatch(time.monotonic() - 5):
        assert 5 <= (waited_seconds() or 0) < 60
    with stopwatch():
        assert 0 <= (waited_seconds() or 0) < 60


def test_nothing_is_counted_where_no_command_runs() -> None:
    with stopwatch():
        pass
    assert waited_seconds() is None


def test_the_script_counts_from_its_first_import_and_a_call_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float | None] = []
    monkeypatch.setattr(main, "app", lambda **_: waited.append(waited_seconds()))
    monkeypatch.setattr(sys, "argv", ["lodestone", "status"])
    monkeypatch.setattr(main, "IMPORTED_AT", time.monotonic() - 7)
    monkeypatch.setattr(main, "_load_commands", lambda _: None)

    with pytest.raises(SystemExit):
        main.main()
    main.run(["status"])

    assert 7 <= (waited[0] or 0) < 60
    assert (waited[1] or 0) < 5
