"""The recipe of a restriction, put into a copy of the sources as it stands, answers over HTTP and on the command line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.cli import environment
from tests.support.home import settings_for
from tests.support.homes import index, write_pictures

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "docs/recipes/add-a-restriction.md"
SOURCES = {
    "client": "lodestone_schemas",
    "core": "lodestone",
    "serve": "lodestone_serve",
    "cli": "lodestone_cli",
    "web": "lodestone_web",
}

ASK = """
import asyncio, json, sys
from pathlib import Path
from tests.support.home import image_ids, settings_for
from tests.support.in_process import app_of, client_of, opened_services

async def main(folder):
    settings = settings_for(folder)
    async with opened_services(settings) as services:
        ids = {Path(uri).stem: image_id for uri, image_id in image_ids(services.session.runtime, "photos").items()}
        async with client_of(app_of(services, settings)) as http:
            await http.post("/v1/tags", json={"image_ids": [ids["000002"], ids["000004"]], "text": "album Norway"})
            said = {}
            for name, match in (
                ("album", {"album": "Norway"}),
                ("no album", {"none": [{"album": "Norway"}]}),
                ("decade", {"decade": "2010"}),
                ("no decade", {"all": [{"none": [{"decade": "2010"}]}, {"album": "norway"}]}),
            ):
                answer = (await http.post("/v1/search", json={"query": "dots", "match": match, "limit": 50})).json()
                record = (await http.get(f"/v1/queries/{answer['query_id']}")).json()
                replayed = (await http.post(f"/v1/queries/{answer['query_id']}/replay")).json()
                names = {image_id: name for name, image_id in ids.items()}
                shown = sorted(names[hit["image_id"]] for hit in answer["hits"])
                said[name] = [shown, record["request"]["match"], replayed["identical"]]
            refused = await http.post("/v1/search", json={"query": "dots", "match": {"decade": "x"}})
            schema = (await http.get("/openapi.json")).json()["components"]["schemas"]["QuerySet"]["properties"]
            print(json.dumps({"said": said, "refused": refused.status_code, "schema": sorted(schema)}))

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with the blocks of the recipe at their places."""
    copy = tmp_path_factory.mktemp("sources")
    for folder, package in SOURCES.items():
        shutil.copytree(ROOT / folder / package, copy / package, ignore=shutil.ignore_patterns("__pycache__", "data"))
    (copy / "lodestone" / "data").symlink_to(ROOT / "core/lodestone/data")
    member, names, node, row = re.findall(r"```python\n(.*?)```", RECIPE.read_text("utf-8"), re.DOTALL)
    searching = copy / "lodestone_schemas/searching.py"
    text = searching.read_text("utf-8")
    (before,) = re.findall(r"^    @model_validator.*\n    def _is_one", text, re.MULTILINE)
    (old_names,) = re.findall(r"^RESTRICTIONS_IN_WORDS.*\n", text, re.MULTILINE)
    searching.write_text(text.replace(before, f"{member}\n{before}").replace(old_names, names), "utf-8")
    tree = copy / "lodestone/query/asking/tree.py"
    tree.write_text(f"{tree.read_text('utf-8')}\n\n{node}", "utf-8")
    table = copy / "lodestone/query/asking/restrictions.py"
    imports = "\n".join(
        [
            "from datetime import UTC, datetime",
            "from lodestone.query.asking.tree import Album, Decade",
            "from lodestone.store.base import Between",
        ]
    )
    table.write_text(f"{table.read_text('utf-8')}\n\n{imports}\n{row}", "utf-8")
    return copy


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("album")
    write_pictures(folder / "pictures", drawn=6)
    index(settings_for(folder), folder / "pictures")
    return folder


def run(extended: Path, home: Path, *words: str) -> str:
    path = os.pathsep.join([str(extended), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *words],
        env=environment(home / "home", PYTHONPATH=path),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_recipe_touches_three_files_that_there_are() -> None:
    files = re.findall(r"^## \d\..*`(\S+\.py)`", RECIPE.read_text("utf-8"), re.MULTILINE)
    assert len(files) == 3
    assert all((ROOT / file).is_file() for file in files)


def test_restrictions_made_by_the_recipe_are_answered_recorded_and_asked_for_everywhere(extended, home) -> None:
    answer = json.loads(run(extended, home, "-c", ASK, str(home)).splitlines()[-1])
    album = ["000002", "000004"]
    said = answer["said"]
    assert said["album"] == [album, {"album": "Norway"}, True]
    assert set(said["no album"][0]) == {path.stem for path in (home / "pictures").rglob("*.*")} - set(album)
    assert said["decade"][0] == [] and said["no decade"][0] == album
    assert answer["refused"] == 422
    assert {"album", "decade", "tagged"} <= set(answer["schema"])
    found = json.loads(
        run(
            extended,
            home,
            "-m",
            "lodestone_cli",
            "search",
            "dots",
            "--not",
            "album=Norway",
            "--where",
            "decade=2010",
            "-o",
            "json",
        )
    )
    assert found["hits"] == []
    found = json.loads(run(extended, home, "-m", "lodestone_cli", "search", "dots", "--where", "album=Norway", "-o", "json"))
    assert sorted(Path(hit["uri"]).stem for hit in found["hits"]) == album
