"""Test of docs/recipes/add-an-operation.md: its steps, followed to the letter, add an operation to every face."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.recipes import follow

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "docs" / "recipes" / "add-an-operation.md"
MOST_FILES = 3

TRIAL = """
import asyncio, json, sys
from pathlib import Path

from tests.support.home import settings_for
from tests.support.pictures import write_photos
from tests.support.served import served_here

from lodestone.errors import UnknownNameError
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.services.local import LocalClient
from lodestone_cli.home_client import HomeClient
from lodestone_client import AsyncLodestone
from lodestone_serve.http.openapi import document

folder = Path(sys.argv[1])
write_photos(folder / "pictures", 3)
settings = settings_for(folder)
counts, refused = [], []


def ask(client):
    counts.append(client.count("photos").pictures)
    try:
        client.count("nowhere")
    except UnknownNameError as error:
        refused.append(error.code)


async def awaited(url, headers):
    async with AsyncLodestone(url, headers=headers) as client:
        counts.append((await client.count(corpus="photos")).pictures)


with Runtime.open(settings) as runtime:
    index_paths(runtime, IndexRequest((folder / "pictures",), corpus="photos"))
    for kind in (LocalClient, HomeClient):
        with kind.over(runtime) as client:
            ask(client)
with served_here(settings) as served:
    with served.client() as client:
        ask(client)
        asyncio.run(awaited(served.address.url, {"x-lodestone-token": served.address.token}))
described = json.loads(document())["paths"]["/v1/count"]["get"]
print(json.dumps([counts, refused, described]))
"""


def linked(package: Path, target: Path, own: Path) -> None:
    """Make a folder that has all that a package has: links, but for `own`, a copy of one of its modules."""
    target.mkdir(parents=True)
    for entry in package.iterdir():
        if entry == own:
            shutil.copy(entry, target / entry.name)
        elif own.is_relative_to(entry):
            linked(entry, target / entry.name, own)
        else:
            (target / entry.name).symlink_to(entry)


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the product, as far as the recipe may touch it, in which the recipe was followed."""
    folder = tmp_path_factory.mktemp("product")
    shutil.copytree(ROOT / "client", folder / "client", ignore=shutil.ignore_patterns("__pycache__"))
    package = ROOT / "core" / "lodestone"
    linked(package, folder / "core" / "lodestone", package / "services" / "pictures.py")
    touched = follow(RECIPE.read_text("utf-8"), folder)
    assert 1 < len(touched) <= MOST_FILES
    return folder


def run(product: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python over the copy."""
    path = os.pathsep.join([str(product / "client"), str(product / "core"), str(ROOT), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280
    )


def test_the_recipe_adds_an_operation_to_every_face_in_three_files(product: Path, tmp_path: Path) -> None:
    done = run(product, "-c", TRIAL, str(tmp_path))
    assert done.returncode == 0, done.stderr
    counts, refused, described = json.loads(done.stdout.splitlines()[-1])
    assert counts == [3, 3, 3, 3]
    assert refused == ["unknown_name"] * 3
    assert described["operationId"] == "count"
    assert described["summary"] == "Return how many pictures of a corpus can be found"
    assert [parameter["name"] for parameter in described["parameters"]] == ["corpus"]
    answer = described["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer == {"$ref": "#/components/schemas/PictureCount"}


def test_the_new_operation_is_held_to_the_table_like_every_other(product: Path) -> None:
    tests = "tests/contract/test_operations.py"
    done = run(product, "-m", "pytest", "-v", "-n", "0", "-p", "no:cacheprovider", tests)
    assert done.returncode == 0, done.stdout
    tried = [line for line in done.stdout.splitlines() if re.search(r"\[(\w+-)?count(-\w+)?\] PASSED", line)]
    assert len(tried) == 9, "each face, its annotations, the use case, the route, the command and the messages"
