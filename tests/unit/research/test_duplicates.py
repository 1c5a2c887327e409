"""Copies that the benchmark of duplicates makes, and what it counts as wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from research.studies.duplicates import COPIES, Indexed, different_pairs, write_pictures, wrong_groups
from tests.support.pictures import photo

from lodestone.duplicates.likeness import ALIKE, correlation, forms_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sources = []
    for seed in range(3):
        sources.append(tmp_path / f"source {seed}.png")
        photo(seed=seed).save(sources[-1])
    written = tmp_path / "written"
    written.mkdir()
    write_pictures(sources[:1], sources[1:], written)
    return written


def test_every_kind_of_copy_is_made_and_correlates_with_its_photo(folder: Path) -> None:
    names = {"0-original.jpg", *(f"0-{kind}.jpg" for kind in range(len(COPIES)))}
    assert {path.name for path in folder.iterdir()} == {*names, "other-0.jpg", "other-1.jpg"}
    original = Image.open(folder / "0-original.jpg")
    halved, cut = Image.open(folder / "0-1.jpg"), Image.open(folder / "0-2.jpg")
    assert halved.size == (original.width // 2, original.height // 2)
    assert cut.size == pytest.approx((0.9 * original.width, 0.9 * original.height), abs=1)
    for kind in range(len(COPIES)):
        with Image.open(folder / f"0-{kind}.jpg") as copy:
            assert correlation(forms_of(original), forms_of(copy)) >= ALIKE


def test_groups_of_one_photo_are_right_and_of_two_are_wrong() -> None:
    right = [frozenset({"1-original.jpg", "1-0.jpg", "1-4.jpg"})]
    wrong = [
        frozenset({"1-0.jpg", "2-0.jpg"}),
        frozenset({"other-1.jpg", "other-2.jpg"}),
        frozenset({"1-0.jpg", "other-1.jpg"}),
    ]
    assert wrong_groups(right) == 0
    assert wrong_groups([*right, *wrong]) == 3


def test_different_photos_are_compared_without_their_copies(folder: Path) -> None:
    angles = {"0-original.jpg": 0.0, "0-0.jpg": 0.01, "other-0.jpg": 0.5, "other-1.jpg": 2.0}
    vectors = {name: np.array([np.cos(angle), np.sin(angle)], np.float32) for name, angle in angles.items()}
    least, count, highest = different_pairs(Indexed(vectors, []), folder, distance=0.4)
    assert least == pytest.approx(1 - np.cos(0.5), abs=1e-6)
    assert count == 1
    assert -1 <= highest < ALIKE
    assert different_pairs(Indexed(vectors, []), folder, distance=0.1)[1:] == (0, 0.0)
