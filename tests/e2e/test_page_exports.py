"""Names in the page's archives unpack on every system, and no cell of its CSV files is a formula."""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.browser import chromium

import lodestone_web

ENGINE = Path(lodestone_web.__file__).parent / "engine"

NAMES = {
    "con .jpg": "_con .jpg",
    "CON": "_CON",
    "a/aux. .txt": "a/_aux. .txt",
    "COM¹.txt": "_COM¹.txt",
    "lpt³": "_lpt³",
    "CONIN$": "_CONIN$",
    "conout$ .x": "_conout$ .x",
    "console.jpg": "console.jpg",
    "com10.jpg": "com10.jpg",
    "conin$x.jpg": "conin$x.jpg",
    "concert .jpg": "concert .jpg",
    ".. /.. /x.jpg": "x.jpg",
    "x" * 240: "x" * 240,
    "x" * 241: "x" * 240,
    "x" * 70_000 + ".jpg": "x" * 236 + ".jpg",
    "é" * 200 + ".jpeg": "é" * 117 + ".jpeg",
    "x" * 238 + "...": "x" * 238,
    "x" * 230 + " " * 20: "x" * 230,
    "folder/" * 20_000 + "x.jpg": "folder/" * 542 + "x.jpg",
}
CELLS = {
    "＝1": "'＝1",
    "＋1": "'＋1",
    "－1": "'－1",
    "＠x": "'＠x",
    "=1": "'=1",
    " =1": "' =1",
    "\u00a0@x": "'\u00a0@x",
    "\u200b-1": "'\u200b-1",
    "\t1": "'\t1",
    "a=1": "a=1",
    " a": " a",
    "−1": "−1",
    "=1,2": '"\'=1,2"',
    'a "b"': '"a ""b"""',
}


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    with chromium() as browser:
        opened = browser.new_page()
        opened.goto("about:blank")
        yield opened


def _call(page: Any, module: str, body: str, given: object) -> Any:
    """What a function's body returns that has the module as `m` and `given`; modules of this folder import nothing."""
    source = base64.b64encode((ENGINE / module).read_bytes()).decode()
    script = f"async (given) => {{ const m = await import('data:text/javascript;base64,{source}'); {body} }}"
    return page.evaluate(script, given)


def test_names_in_an_archive_mean_no_device_and_fit_into_every_file_system(page: Any) -> None:
    found = _call(page, "zip.js", "return given.map(m.safeName)", list(NAMES))
    assert dict(zip(NAMES, found, strict=True)) == NAMES


def test_an_archive_with_a_name_of_more_than_its_format_can_hold_is_whole(page: Any) -> None:
    body = """
      const writer = new m.ZipWriter();
      for (const name of given) await writer.add(name, new Blob([name.slice(0, 3)]));
      const bytes = new Uint8Array(await writer.finish().arrayBuffer());
      return btoa(bytes.reduce((text, byte) => text + String.fromCharCode(byte), ""));
    """
    names = ["abc/" * 20_000 + "x.jpg", "x" * 70_000 + ".jpg", "x" * 70_001 + ".jpg"]
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(_call(page, "zip.js", body, names)))) as archive:
        assert archive.testzip() is None
        assert [archive.read(name) for name in archive.namelist()] == [b"abc", b"xxx", b"xxx"]
        assert len({name.lower() for name in archive.namelist()}) == 3


def test_no_cell_begins_like_a_formula(page: Any) -> None:
    assert dict(zip(CELLS, _call(page, "csv.js", "return given.map(m.cell)", list(CELLS)), strict=True)) == CELLS
    assert _call(page, "csv.js", "return m.cell(given)", -1) == "-1"  # a number
