"""Test of docs/recipes/add-a-route.md: its steps, followed to the letter, add a route that is guarded."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.recipes import follow

ROOT = Path(__file__).parents[4]
RECIPE = ROOT / "docs" / "recipes" / "add-a-route.md"
MOST_FILES = 3

TRIAL = """
import asyncio, json, sys
from pathlib import Path

import httpx
from tests.support.fake_services import FakeServices

from lodestone.access.keys import ApiKey
from lodestone.catalog.catalog import Catalog
from lodestone.config.serve import ServeSettings
from lodestone_schemas.access import KeyRequest, Scope
from lodestone_serve.http.application import create_app


class Services(FakeServices):
    def key_store(self):
        return self.catalog


async def main(folder):
    services = Services(folder)
    services.catalog = Catalog.open(folder / "catalog.sqlite")
    app = create_app(services, settings=ServeSettings.model_validate({"auth": {"keys": True}}), token="t")

    def key(scope):
        made, written = ApiKey.new(KeyRequest(name="k", scopes=[scope]))
        services.catalog.add_key(made)
        return {"X-API-Key": written}

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http:
        answers = [
            await http.get("/v1/version"),
            await http.get("/v1/version", headers=key(Scope.FEEDBACK)),
            await http.get("/v1/version", headers=key(Scope.SEARCH)),
            await http.get("/v1/version", headers={**key(Scope.SEARCH), "Content-Length": "65537"}),
        ]
    print(json.dumps([[one.status_code for one in answers], answers[2].json(), sorted(app.openapi()["paths"])]))


asyncio.run(main(Path(sys.argv[1])))
"""


def test_the_recipe_adds_a_route_in_three_files(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "serve" / "lodestone_serve", tmp_path / "serve" / "lodestone_serve")
    touched = follow(RECIPE.read_text("utf-8"), tmp_path)
    assert 1 < len(touched) <= MOST_FILES

    path = os.pathsep.join([str(tmp_path / "serve"), str(ROOT), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", TRIAL, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    statuses, answer, paths = json.loads(done.stdout.splitlines()[-1])
    assert statuses == [401, 403, 200, 413]
    assert list(answer) == ["version"]
    assert "/v1/version" in paths
