"""Tests of the example notebook: IPython runs its cells against a real service with keys, and answers show real pictures."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from tests.support.keyed import KeyedService, keyed_service

NOTEBOOK = Path(__file__).parents[2] / "docs" / "search-pictures.ipynb"
# A process of its own, because IPython's shell changes the hooks of its process.
_RUN = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
shell = InteractiveShell.instance()
shown = {}
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        with capture_output() as captured:
            done = shell.run_cell("".join(cell["source"]), store_history=True)
        if not done.success:
            sys.exit(f"{cell['id']}: {captured.stdout}")
        results = [] if done.result is None else [shell.display_formatter.format(done.result)[0]]
        shown[cell["id"]] = [output.data for output in captured.outputs] + results
print(json.dumps(shown))
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedService]:
    with keyed_service(tmp_path_factory.mktemp("notebook")) as served:
        yield served


@pytest.fixture(scope="module")
def shown(service: KeyedService, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, str]]]:
    """Cell -> what it displayed, by media type."""
    surroundings = {
        **os.environ,
        "LODESTONE_URL": service.url,
        "LODESTONE_API_KEY": service.key,
        "IPYTHONDIR": str(tmp_path_factory.mktemp("ipython")),
    }
    found = subprocess.run(
        [sys.executable, "-c", _RUN, NOTEBOOK], env=surroundings, capture_output=True, text=True, timeout=240, check=False
    )
    assert found.returncode == 0, found.stderr + found.stdout
    return json.loads(found.stdout)


def pictures_in(html: str) -> list[bytes]:
    return [base64.b64decode(content) for content in re.findall(r'src="data:image/jpeg;base64,([^"]+)"', html)]


@pytest.mark.parametrize(("cell", "count"), [("search", 8), ("hit", 1), ("similar", 7), ("stream", 8), ("async", 8)])
def test_a_cell_shows_the_pictures_of_its_answer(cell: str, count: int, shown: dict[str, list[dict[str, str]]]) -> None:
    html = shown[cell][-1]["text/html"]
    assert len(pictures_in(html)) == html.count("<img") == count
    for content in pictures_in(html):
        assert Image.open(io.BytesIO(content)).size == (120, 80)
    assert "text/plain" in shown[cell][-1], "a notebook that shows no HTML has the text"


def test_captions_and_names_stand_beside_the_pictures(shown: dict[str, list[dict[str, str]]]) -> None:
    html = shown["search"][-1]["text/html"]
    for expected in ("8 pictures", "000000.jpg", "a red boat", "two dogs on a beach"):
        assert expected in html


def test_no_output_holds_the_key_or_the_address(service: KeyedService, shown: dict[str, list[dict[str, str]]]) -> None:
    everything = json.dumps(shown)
    assert service.key not in everything
    assert service.url not in everything


def test_the_example_is_a_notebook_without_outputs() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
