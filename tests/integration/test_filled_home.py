"""Homes that benchmarks fill answer completely: what is left out of an answer would be left out of its figures."""

from __future__ import annotations

from pathlib import Path

from benchmarks.loading.service import fill_home, flags_for, settings_of

from lodestone.home.runtime import Runtime
from lodestone_schemas.api import SearchRequest


async def test_an_answer_from_a_filled_home_searches_its_captions_too(tmp_path: Path) -> None:
    flags = flags_for(tmp_path / "home")
    fill_home(flags, points=40, captioned=0.5)
    with Runtime.open(settings_of(flags)) as runtime:
        answer = await runtime.engine().answer(SearchRequest(query="a red bicycle in the snow"))
        assert runtime.catalog.has_captions()
    assert answer.warnings == []  # which would say that captions are left out
