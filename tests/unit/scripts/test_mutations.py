"""Tests that the table of mutations fits the tree, and that the runner tells caught, survived and broken mutations apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts import mutations
from scripts.mutations import BrokenTableError, Mutation, Result, Row, applied, faults, read_mutations, run_all, written


def test_every_mutation_of_the_table_fits_the_tree() -> None:
    assert faults(read_mutations()) == []


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "code.py").write_text("def larger(a, b):\n    return a > b\n")
    (tmp_path / "test_code.py").write_text("from code_under_test import larger\n\ndef test_it():\n    assert larger(2, 1)\n")
    (tmp_path / "code_under_test.py").write_text("def larger(a, b):\n    return a > b\n")
    return tmp_path


def _mutation(old: str, new: str, *, test: str = "test_code.py") -> Mutation:
    return Mutation(f"{old} -> {new}", "code_under_test.py", old, new, (test,))


def test_what_does_not_fit_the_tree_is_listed(tree: Path) -> None:
    lines = faults([_mutation("a", "b"), _mutation("a > b", "a > b", test="no_test.py")], tree)
    assert lines == [
        "a -> b: the text to replace occurs 3 times in code_under_test.py",
        "a > b -> a > b: nothing is replaced",
        "a > b -> a > b: there is no test no_test.py",
    ]


def test_a_test_that_was_renamed_is_missed(tree: Path) -> None:
    assert faults([_mutation("a > b", "a < b", test="test_code.py::test_it")], tree) == []
    assert len(faults([_mutation("a > b", "a < b", test="test_code.py::test_that")], tree)) == 1


def test_a_table_with_a_missing_field_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "mutations.toml"
    table.write_text('[[mutation]]\nname = "x"\nfile = "a.py"\n')
    with pytest.raises(BrokenTableError, match="'x' has"):
        read_mutations(table)


def test_a_file_is_restored_after_its_mutation(tree: Path) -> None:
    before = (tree / "code_under_test.py").read_text()
    with applied(_mutation("a > b", "a < b"), tree):
        assert (tree / "code_under_test.py").read_text() == "def larger(a, b):\n    return a < b\n"
    assert (tree / "code_under_test.py").read_text() == before


def test_caught_surviving_and_broken_mutations_are_told_apart(tree: Path) -> None:
    rows = run_all([_mutation("a > b", "a < b"), _mutation("a > b", "a >= b"), _mutation("a > b", "a >")], tree, timeout=240)
    assert [row.result for row in rows] == [Result.CAUGHT, Result.SURVIVED, Result.BROKEN]
    assert rows[0].noticed_by == "test_code.py::test_it"


def test_tests_that_do_not_end_count_as_caught(tree: Path) -> None:
    (row,) = run_all([_mutation("return a > b", "import time; time.sleep(60)")], tree, timeout=3)
    assert row.result is Result.TIMEOUT


def test_the_table_of_results_counts_them() -> None:
    rows = [
        Row(_mutation("a", "b"), Result.CAUGHT, "tests/test_a.py::test_b", 1.2),
        Row(_mutation("c", "d"), Result.SURVIVED, "", 3),
    ]
    text = written(rows)
    assert "| a -> b | code_under_test.py | caught | test_a.py::test_b | 1 |" in text
    assert text.endswith("1 of 2 caught, 1 survived, 0 broken")


def test_a_broken_table_ends_the_run_before_anything_is_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "mutations.toml"
    table.write_text('[[mutation]]\nname = "x"\nfile = "gone.py"\nold = "a"\nnew = "b"\ntests = ["gone_test.py"]\n')
    assert mutations.main(["--table", str(table), "--check"]) == 2
    assert "there is no file gone.py" in capsys.readouterr().err
