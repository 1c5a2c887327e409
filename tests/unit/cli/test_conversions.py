"""Tests of the line that tells of models that are converted, where nobody sees a bar."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lodestone.models.cache import ModelCache
from lodestone_cli.options import Output
from lodestone_cli.progress import shown_conversions

LINE = "converting models, which is done once and can take minutes"


def context(said: list[str], *, is_terminal: bool = False, output: Output = Output.HUMAN) -> Any:
    return SimpleNamespace(messages=SimpleNamespace(is_terminal=is_terminal, print=said.append), output=output)


def convert(folder: Path) -> None:
    for name in ("text", "pictures"):
        ModelCache(folder).obtain(name, key="k", suffix=".onnx", build=lambda target: target.write_bytes(b"graph"))


def test_one_line_tells_of_models_that_are_converted_and_none_of_those_that_are_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, first, second = logging.getLogger("lodestone.models.cache"), list[str](), list[str]()
    before = log.level
    with shown_conversions(context(first)):
        convert(tmp_path)
    with shown_conversions(context(second)):
        convert(tmp_path)
    assert (first, second) == ([LINE], [])
    assert caplog.messages == []  # not a second time, by the handlers of the log
    assert (log.level, log.filters) == (before, [])


@pytest.mark.parametrize("given", [{"is_terminal": True}, {"output": Output.JSON}])
def test_a_terminal_has_its_bar_and_a_program_reads_no_lines(given: dict[str, Any], tmp_path: Path) -> None:
    said: list[str] = []
    with shown_conversions(context(said, **given)):
        convert(tmp_path)
    assert said == []
