"""Tests of how test processes begin and end: what they need not import, what each imports first, and what is garbage."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support import collecting
from tests.support.collecting import (
    SELECTING,
    has_no_test_with,
    has_only_tests_with,
    import_share,
    is_left_out,
    leave_cases_to_the_night,
    look_for_garbage_once,
    unwanted_mark,
    wanted_mark,
)

TESTS = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("expression", "mark"),
    [
        ("slow and not nightly", "slow"),
        ("nightly", "nightly"),
        ("not slow", None),
        ("slow or server", None),
        ("server and slow", None),
        ("", None),
    ],
)
def test_a_mark_is_wanted_where_no_test_without_it_is_selected(expression: str, mark: str | None) -> None:
    assert wanted_mark(expression) == mark


def test_only_files_of_tests_that_do_not_name_the_mark_are_passed_over(tmp_path: Path) -> None:
    for name, text in (("test_slow.py", "@pytest.mark.slow"), ("test_quick.py", "def test_slowly(): ..."), ("conftest.py", "")):
        (tmp_path / name).write_text(text)
    passed_over = [path.name for path in sorted(tmp_path.iterdir()) if has_no_test_with("slow", path)]
    assert passed_over == ["test_quick.py"]
    assert not any(has_no_test_with(None, path) for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("expression", "mark"), [("not slow", "slow"), ("slow", None), ("not server", None), ("not slow or ray", None), ("", None)]
)
def test_a_mark_is_unwanted_where_no_test_with_it_is_selected(expression: str, mark: str | None) -> None:
    assert unwanted_mark(expression) == mark


def test_files_whose_tests_all_have_the_mark_are_passed_over_where_it_is_unwanted(tmp_path: Path) -> None:
    marks = {
        "test_all.py": "import pytest\n\npytestmark = [pytest.mark.ray, pytest.mark.slow]  # clusters",
        "test_some.py": "@pytest.mark.slow\ndef test_a(): ...",
        "test_others.py": "pytestmark = pytest.mark.ray  # mark.slow",
        "helper.py": "pytestmark = pytest.mark.slow",
    }
    for name, text in marks.items():
        (tmp_path / name).write_text(text)
    assert [name for name in marks if has_only_tests_with("slow", tmp_path / name)] == ["test_all.py"]
    assert [name for name in marks if is_left_out("not slow", tmp_path / name)] == ["test_all.py"]
    assert [name for name in marks if is_left_out("slow", tmp_path / name)] == []
    assert not any(is_left_out("", tmp_path / name) for name in marks)


def test_a_mark_that_a_fixture_of_the_folder_gives_is_looked_for_in_its_conftest(tmp_path: Path) -> None:
    (tmp_path / "test_quick.py").write_text("def test_slowly(store): ...")
    (tmp_path / "conftest.py").write_text("pytest.param(1, marks=pytest.mark.slow)")
    assert not has_no_test_with("slow", tmp_path / "test_quick.py")
    assert has_no_test_with("nightly", tmp_path / "test_quick.py")


class Item:
    """A test as far as it is marked."""

    def __init__(self, nodeid: str, bound: int | None) -> None:
        self.nodeid, self._bound = nodeid, bound
        self.marks: list[str] = []
        self.add_marker = self.marks.append

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return None if self._bound is None else pytest.Mark(name, (self._bound,), {}, _ispytest=True)


def test_cases_beyond_the_first_of_a_test_are_left_to_the_night() -> None:
    cases = [Item(f"test_a.py::test_cases[{case}]", 2) for case in "abcd"]
    others = [Item(f"test_a.py::test_others[{case}]", None) for case in "abc"]
    elsewhere = [Item(f"test_b.py::test_cases[{case}]", 2) for case in "ab"]
    leave_cases_to_the_night([*cases, *others, *elsewhere])  # type: ignore[list-item]
    assert [item.marks for item in cases] == [[], [], list(SELECTING), list(SELECTING)]
    assert all(item.marks == [] for item in (*others, *elsewhere))


@pytest.mark.parametrize("mark", SELECTING)
def test_the_mark_of_a_test_stands_in_its_own_file(mark: str) -> None:
    """Who gave it another name in a shared module would hide tests from `make test-slow`. Fixtures give it to their folder."""
    elsewhere = [
        path
        for path in TESTS.rglob("*.py")
        if not (path.match("test_*.py") or path.name == "conftest.py") and f"pytest.mark.{mark}" in path.read_text()
    ]
    assert elsewhere == []


def a_worker(folder: Path, worker: int, **options: Any) -> Any:
    """What pytest-xdist's process number `worker` of two knows, for the tests of a folder."""
    told = {"ignore": [], "markexpr": "", **options}
    workerinput = {"workerid": f"gw{worker}", "workercount": 2}
    return SimpleNamespace(rootpath=folder, args=["checks"], getoption=told.get, workerinput=workerinput)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("test_a.py", "test_b.py", "test_c.py", "left_out/test_d.py"):
        path = tmp_path / "checks" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for module in [name for name in sys.modules if name.partition(".")[0] == "checks"]:
        del sys.modules[module]


def imported() -> list[str]:
    return sorted(name for name in sys.modules if name.startswith("checks.") and ".test_" in name)


def test_each_process_imports_other_modules_first(project: Path) -> None:
    import_share(a_worker(project, 0, ignore=["checks/left_out"]))
    assert imported() == ["checks.test_a", "checks.test_c"]
    import_share(a_worker(project, 1, ignore=["checks/left_out"]))
    assert imported() == ["checks.test_a", "checks.test_b", "checks.test_c"]


def test_what_is_not_collected_is_not_imported(project: Path) -> None:
    (project / "checks" / "test_c.py").write_text("import pytest\npytestmark = pytest.mark.slow\n")
    for worker in (0, 1):
        import_share(a_worker(project, worker, markexpr="slow and not nightly"))
    assert imported() == ["checks.test_c"]


@pytest.mark.parametrize("text", ["1 / 0", "import pytest\npytest.skip('no', allow_module_level=True)"])
def test_a_module_that_cannot_be_imported_is_left_to_pytest(project: Path, text: str) -> None:
    (project / "checks" / "test_a.py").write_text(text)
    for worker in (0, 1):
        import_share(a_worker(project, worker))
    assert "checks.test_c" in imported()


def test_a_process_alone_imports_nothing_beforehand(project: Path) -> None:
    import_share(SimpleNamespace(rootpath=project, args=["checks"]))  # type: ignore[arg-type]
    assert imported() == []


def test_garbage_goes_and_what_is_left_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            done.append("let go of")

    done: list[str] = []
    monkeypatch.setattr(collecting, "gc", SimpleNamespace(collect=gc.collect, freeze=lambda: done.append("kept")))
    Cycle()
    look_for_garbage_once()
    assert done == ["let go of", "kept"]
