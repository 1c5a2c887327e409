"""`lodestone index --actors` takes a number of actors or two bounds, and refuses everything else in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import run_here

from lodestone.errors import InvalidRequestError
from lodestone.home.runtime import Runtime
from lodestone_jobs import index as index_job


@pytest.mark.parametrize(("given", "expected"), [("3", 3), ("2:16", (2, 16)), ("4:4", (4, 4)), ("0", 0)])
def test_a_number_or_bounds_become_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, expected: int | tuple[int, int]
) -> None:
    seen: list[Any] = []

    def run(runtime: Runtime, _paths: Sequence[str], **_: Any) -> None:
        seen.append(runtime.settings.cluster.actors)
        raise InvalidRequestError("that is enough")

    monkeypatch.setattr(index_job, "run_index", run)
    told = run_here("index", tmp_path, "--actors", given, home=tmp_path / "home")
    assert "that is enough" in told.err
    assert seen == [expected]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("some", "neither a number nor two numbers MIN:MAX"),
        ("1:2:3", "neither a number nor two numbers MIN:MAX"),
        ("2:", "neither a number nor two numbers MIN:MAX"),
        ("-1", "neither a number nor two numbers MIN:MAX"),
        ("8:2", "expected a number up to 10,000, or [least, most] with 1 <= least <= most"),
        ("0:2", "expected a number up to 10,000, or [least, most] with 1 <= least <= most"),
    ],
)
def test_other_texts_are_refused(tmp_path: Path, given: str, why: str) -> None:
    told = run_here("index", tmp_path, f"--actors={given}", home=tmp_path / "home")
    assert told.code != 0
    assert why in " ".join(told.err.split())
