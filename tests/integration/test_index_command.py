"""Tests of `lodestone index` as its user sees it: what it ends with when nothing that was named can be used."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli import run_here
from tests.support.pictures import write_photos

SETTINGS = {"LODESTONE_INDEX__EXECUTOR": "inline", "LODESTONE_INDEX__WORKERS": "1"}


def test_named_files_that_cannot_be_used_are_an_error_and_beside_good_ones_a_remark(tmp_path: Path) -> None:
    home, (good,) = tmp_path / "home", write_photos(tmp_path, 1)
    bad = tmp_path / "zero.jpg"
    bad.touch()

    for _ in range(2):  # the second time nothing has changed
        alone = run_here("index", bad, "--corpus", "x", home=home, **SETTINGS)
        assert alone.code == 10
        assert "error [bad_image]: the file could not be used" in alone.err
        assert "lodestone status --failures" in alone.err
    beside = run_here("index", bad, good, "--corpus", "x", home=home, **SETTINGS)
    assert (beside.code, beside.out.splitlines()[0]) == (0, "1 picture can be found in x  (1 new, 1 unchanged)")
    assert "1 file could not be used before: lodestone status --failures" in beside.out


def test_failed_files_are_counted_beside_the_new_ones_and_tried_again_without_naming_their_folder(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "photos"
    write_photos(folder, 2)
    broken = folder / "broken.jpg"
    broken.write_text("a shopping list", "utf-8")

    first = run_here("index", folder, home=home, **SETTINGS)
    assert first.out.splitlines()[0] == "2 pictures can be found in default  (3 new; 1 could not be used)"
    assert "the file begins with 'a shoppi'" in run_here("status", "--failures", home=home).out
    run = run_here("runs", "show", "-o", "json", home=home).json
    status, shown = (run_here(*words, home=home).out for words in (("status",), ("runs", "show")))
    assert f"run {run['run_id'][:8]} of 20" in status and "index: done\n" in status
    assert "+00:00" not in shown and "stage " not in shown
    again = run_here("index", "--retry-failed", home=home, **SETTINGS)
    assert (again.code, "1 could not be used" in again.out) == (0, True), again.err
    broken.unlink()
    assert run_here("index", folder, home=home, **SETTINGS).code == 0
    nothing = run_here("index", "--retry-failed", home=home, **SETTINGS)
    assert (nothing.code, "no file of 'default' is to be tried again" in nothing.err) == (2, True)
