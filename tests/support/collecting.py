"""Cheap beginning and end of test processes: modules are compiled once between them, and garbage is looked for once.

Every process of pytest-xdist collects all tests. In a fresh checkout each would rewrite the assertions of all modules, which
takes a processor longer than everything else that collecting does, and each would write what the others write.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

SELECTING = ("slow", "nightly")
"""Marks that stand in the file of each test that has them, so that other files need not be imported to look for them."""


def wanted_mark(expression: str) -> str | None:
    """Return the mark of SELECTING that every test must have to be selected by `-m EXPRESSION`; None if there is none."""
    words = expression.split()
    return words[0] if words and words[0] in SELECTING and "or" not in words else None


def has_no_test_with(mark: str | None, path: Path) -> bool:
    """Return whether this is a file of tests in which none has the mark."""
    return mark is not None and path.match("test_*.py") and f"mark.{mark}" not in path.read_text("utf-8")


def share(files: Sequence[Path], worker: int, workers: int) -> list[Path]:
    """Return the files that one of so many processes imports first; each file is in one share."""
    return list(files[worker::workers])


def import_share(config: pytest.Config) -> None:
    """Import this process's share of the test modules, which writes them compiled; pytest finds the others' when it collects.

    What cannot be imported is reported by pytest, which tries again.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or worker["workercount"] < 2:
        return
    root = config.rootpath
    ignored = [root / name for name in config.getoption("ignore") or ()]
    mark = wanted_mark(config.getoption("markexpr"))
    files = [
        path
        for folder in config.args
        for path in sorted((root / folder).rglob("test_*.py"))
        if not any(path.is_relative_to(left_out) for left_out in ignored) and not has_no_test_with(mark, path)
    ]
    for path in share(files, int(worker["workerid"].removeprefix("gw")), worker["workercount"]):
        with suppress(Exception, pytest.skip.Exception, pytest.fail.Exception):
            importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))


def look_for_garbage_once() -> None:
    """Let go of what is garbage, and never look at what is left again.

    At the end pytest collects garbage once more. By then a process has told pytest-xdist that it is done, which interrupts
    whoever has not ended five seconds later (KeyboardInterrupt), and with millions of objects that takes as long.
    """
    gc.collect()
    gc.freeze()
