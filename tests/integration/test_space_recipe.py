"""Tests of the recipe for a new space: the page's own code, as it stands, makes a space that is filled and searched."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.home import image_ids, settings_for
from tests.support.pictures import write_photos

from lodestone.config.own_profiles import ProfileSettings
from lodestone.config.settings import Settings
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.spaces import registry
from lodestone_schemas.api import SearchOptions

PAGE = Path(__file__).parents[2] / "docs" / "recipes" / "add-a-space.md"
_STEP = re.compile(r"^## \d\. .*?, in .*?`([^`]+)`$.*?```(\w+)\n(.*?)```", re.MULTILINE | re.DOTALL)


def indexed(settings: Settings, folder: Path) -> IndexReport:
    with Runtime.open(settings, purpose="a test") as runtime:
        return index_paths(runtime, IndexRequest((folder,)))


def steps() -> list[tuple[str, str, str]]:
    """File, language and code of every step."""
    return _STEP.findall(PAGE.read_text("utf-8"))


def test_a_space_touches_at_most_three_files_of_the_product() -> None:
    files = {file for file, language, _ in steps() if language == "python"}

    assert files == {"core/lodestone/spaces/classes.py", "core/lodestone/spaces/registry.py"}


async def test_the_page_makes_a_space_that_is_filled_from_stored_outputs_and_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (_, _, projection), (_, _, row), (_, _, profile) = steps()
    module = ModuleType("lodestone.spaces.classes")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(projection, "classes.py", "exec"), module.__dict__)
    spaces = dict(registry.SPACES)
    exec(row, {"SPACES": spaces, "ClassSpace": module.ClassSpace})
    monkeypatch.setattr(registry, "SPACES", spaces)
    wanted = tomllib.loads(profile)

    write_photos(tmp_path / "photos", 5)
    settings = settings_for(tmp_path)
    before = indexed(settings, tmp_path / "photos")
    own = {name: ProfileSettings(**values) for name, values in wanted["profiles"].items()}
    after = indexed(settings.model_copy(update={"profile": wanted["profile"], "profiles": own}), tmp_path / "photos")

    assert (before.counts["embedded"], after.counts.get("embedded", 0)) == (5, 0), (
        "outputs are stored: no picture is embedded again"
    )
    with Runtime.open(settings.model_copy(update={"profile": "mine", "profiles": own}), purpose="a test") as runtime:
        first, *others = sorted(image_ids(runtime).values())
        engine = runtime.engine()
        response = await engine.similar(first, SearchOptions(spaces=["classes"], limit=10))
        await engine.settled(response.query_id)

    assert sorted(hit.image_id for hit in response.hits) == others
    assert list(response.space_weights) == ["classes"]
