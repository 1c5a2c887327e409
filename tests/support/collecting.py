"""Cheap beginning and end of test processes: modules are compiled once between them, and garbage is looked for once.

Every process of pytest-xdist collects all tests. In a fresh checkout each would rewrite the assertions of all modules, which
takes a processor longer than everything else that collecting does, and each would write what the others write.
"""

from __future__ import annotations

import gc
import importlib
import re
from collections import Counter
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


def unwanted_mark(expression: str) -> str | None:
    """Return the mark of SELECTING that no test selected by `-m EXPRESSION` has; None if there is none."""
    words = expression.split()
    return words[1] if len(words) == 2 and words[0] == "not" and words[1] in SELECTING else None


def has_no_test_with(mark: str | None, path: Path) -> bool:
    """Return whether this is a file of tests in which none has the mark, nor gets it from a fixture of its folder."""
    if mark is None or not path.match("test_*.py"):
        return False
    texts = (file.read_text("utf-8") for file in (path, path.with_name("conftest.py")) if file.is_file())
    return not any(f"mark.{mark}" in text for text in texts)


def leave_cases_to_the_night(items: Sequence[pytest.Item]) -> None:
    """Mark as nightly the cases of a test beyond the first so many that its mark `nightly_beyond` names.

    They repeat for another case what the first ones show.
    """
    seen: Counter[str] = Counter()
    for item in items:
        bound = item.get_closest_marker("nightly_beyond")
        if bound is None:
            continue
        test = item.nodeid.partition("[")[0]
        seen[test] += 1
        if seen[test] > bound.args[0]:
            for mark in SELECTING:
                item.add_marker(mark)


def has_only_tests_with(mark: str | None, path: Path) -> bool:
    """Return whether this is a file of tests whose `pytestmark` gives all of them the mark."""
    if mark is None or not path.match("test_*.py"):
        return False
    marks = re.search(r"^pytestmark = (.*)$", path.read_text("utf-8"), re.MULTILINE)
    return marks is not None and re.search(rf"\bmark\.{mark}\b", marks[1].partition("#")[0]) is not None


def is_left_out(expression: str, path: Path) -> bool:
    """Return whether `-m EXPRESSION` selects no test of this file, as far as can be told without an import of it."""
    return has_no_test_with(wanted_mark(expression), path) or has_only_tests_with(unwanted_mark(expression), path)


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
    expression = config.getoption("markexpr")
    files = [
        path
        for folder in config.args
        for path in sorted((root / folder).rglob("test_*.py"))
        if not any(path.is_relative_to(left_out) for left_out in ignored) and not is_left_out(expression, path)
    ]
    for path in share(files, int(worker["workerid"].removeprefix("gw")), worker["workercount"]):
        with suppress(Exception, pytest.skip.Exception, pytest.fail.Exception):
            importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))


def look_for_garbage_rarely() -> None:
    """Look for garbage after 20,000 new objects instead of 700: a process that holds all tests has millions to look through."""
    gc.set_threshold(20_000, 50, 100)


def look_for_garbage_once() -> None:
    """Let go of what is garbage, and never look at what is left again.

    At the end pytest collects garbage once more. By then a process has told pytest-xdist that it is done, which interrupts
    whoever has not ended five seconds later (KeyboardInterrupt), and with millions of objects that takes as long.
    """
    gc.collect()
    gc.freeze()
