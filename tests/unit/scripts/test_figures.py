"""Tests of the documentation's figures: they are current, their texts fit, and they follow light and dark."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from scripts import figures
from scripts.figures import FIGURES, Box, Figure

EVERY = pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)


def test_the_files_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert figures.main(["--check"]) == 0, capsys.readouterr().err
    assert {path.name for path in figures.FOLDER.glob("*.svg")} == FIGURES.keys()


def test_a_changed_file_is_found_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    monkeypatch.setattr(figures.stale, "__defaults__", (tmp_path,))
    assert figures.main(["--check"]) == 1
    assert figures.main([]) == 0
    assert figures.main(["--check"]) == 0
    (tmp_path / "query-flow.svg").write_text("changed", encoding="utf-8")
    assert figures.main(["--check"]) == 1


@EVERY
def test_texts_fit_into_boxes_and_boxes_into_the_figure(figure: Figure) -> None:
    assert [text for box in figure.boxes for text in box.overflow()] == []
    for box in figure.boxes:
        assert 0 <= box.x <= box.x + box.width <= figure.width
        assert 0 <= box.y <= box.y + box.height <= figure.height
    for one, other in combinations(figure.boxes, 2):
        beside = one.x + one.width <= other.x or other.x + other.width <= one.x
        assert beside or one.y + one.height <= other.y or other.y + other.height <= one.y


@EVERY
def test_a_figure_is_a_picture_with_a_title_and_a_description(figure: Figure) -> None:
    root = ET.fromstring(figure.svg())
    space = "{http://www.w3.org/2000/svg}"
    assert root.attrib["role"] == "img"
    assert root.find(f"{space}title").text == figure.title  # type: ignore[union-attr]
    assert root.find(f"{space}desc").text == figure.description  # type: ignore[union-attr]


@EVERY
def test_each_colour_has_one_for_dark(figure: Figure) -> None:
    light, _, dark = figure.svg().partition("@media (prefers-color-scheme: dark)")
    rules = dict(re.findall(r"^(text|\.\w+) \{(.*)\}$", light, re.MULTILINE))
    coloured = {name for name, rule in rules.items() if "#" in rule.replace("url(#head)", "")}
    assert coloured
    assert coloured <= {name for name, _ in re.findall(r"^  (text|\.\w+) \{(.*)\}$", dark, re.MULTILINE)}


def test_texts_that_do_not_fit_are_found() -> None:
    assert Box(0, 0, "A title that is far too long", width=100).overflow() == ["A title that is far too long"]
    assert Box(0, 0, "A", ("one", "two", "three")).overflow() == ["A"]
