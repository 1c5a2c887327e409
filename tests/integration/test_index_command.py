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
