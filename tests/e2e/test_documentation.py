"""The code blocks of the documentation, run page by page as a reader would, against a real service.

`tests/unit/docs` checks all blocks without running them. What cannot be run stands in tables with its reason: command lines in
`documented_commands.NOT_RUN`, Python in `NO_PYTHON`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.archives import write_tar
from tests.support.documented_commands import SHELLS, reason_not_to_run
from tests.support.documents import ROOT, all_blocks, blocks_of, name_of, pages, statements
from tests.support.forked_commands import forked_commands
from tests.support.home_copies import copy_folder
from tests.support.homes import home_settings, index, write_pictures
from tests.support.patience import DEADLINE_MS
from tests.support.pictures import write_photos
from tests.support.served import Served, served_here

from lodestone.access.keys import ApiKey
from lodestone.home.runtime import Runtime
from lodestone_client import Lodestone
from lodestone_schemas.access import KeyRequest, Scope
from lodestone_schemas.api import SearchRequest, TagRequest

# Page -> why its Python is not run here: a test that follows the page's steps runs it, or what it needs is not there.
NO_PYTHON = {
    "docs/recipes/add-a-query-node.md": "tests/integration/test_query_pipeline.py",
    "docs/recipes/add-a-restriction.md": "tests/integration/test_restriction_recipe.py",
    "docs/recipes/add-a-route.md": "tests/unit/serve/http/test_route_recipe.py",
    "docs/recipes/add-an-operation.md": "tests/integration/test_operation_recipe.py",
    "docs/recipes/add-a-space.md": "tests/integration/test_space_recipe.py",
    "docs/recipes/add-a-part.md": "tests/integration/test_part_recipe.py",
    "docs/client.md": "tests/integration/test_client_docs.py",
    "docs/frameworks.md": "tests/integration/test_client_docs.py",
    "docs/notebook.md": "tests/integration/test_client_docs.py",
    "docs/export.md": "tests/integration/test_export.py",
    "docs/recipes/add-an-embedder.md": "tests/integration/test_model_recipes.py",
    "docs/recipes/add-a-generator.md": "tests/integration/test_model_recipes.py",
}
# Programs that a machine may lack. Their stand-ins do what the pages need of them.
STAND_INS = {
    "feh": "exit 0",
    "uuidgen": "cat /proc/sys/kernel/random/uuid",
    "jq": 'exec python3 -c \'import json, sys; print(json.load(sys.stdin)[sys.argv[1].lstrip(".")])\' "$2"',
}
HANG_S = 280.0  # seconds after which a page, or a command of its own, counts as hanging
PICTURES = ("IMG_2041.jpg", "IMG_1.jpg", "IMG_2.jpg", "harbour.jpg", "street.jpg", "photo.jpg", "a.jpg", "b.jpg")
# Page -> what stands for the reader's own in it, beside the ids and folders that all pages share.
OWN: dict[str, dict[str, str]] = {
    "README.md": {"--corpus press": "--corpus photos"},
    "docs/api.md": {"corpus=photos&limit=100": "corpus=photos&limit=2"},
    "docs/composed.md": {"refine 3f2a": "refine last", "shoe.jpg --composition shoes": "harbour.jpg --composition default"},
    "docs/directories.md": {
        "remove Pictures": "remove Pictures --yes",
        "Pictures": "Holiday",
        "relocate ~/photos ~/photos2": "relocate ~/Sea ~/Sea2",
        "~/photos": "~/Trip",
    },
    "docs/quickstart.md": {"~/Pictures/2024/": ""},
    "docs/runs.md": {"runs cancel": "runs cancel || test $? = 3"},  # no run is going on
    "docs/security.md": {"--corpus holidays": "--corpus photos"},
    "docs/sources.md": {"{000..099}": "{000..001}"},
}
# A wrong status ends the page. While a run goes on in the background, another one of its corpus waits its turn (exit code 6).
PRELUDE = """
set -eE -o pipefail
trap 'echo "$place: exit code $?" >&2' ERR
curl() { command curl --fail-with-body "$@"; }
lodestone() {
  local code=0
  for attempt in 1 2 3 4 5 6 7 8 9 10; do
    code=0
    command lodestone "$@" || code=$?
    test "$code" = 6 || return "$code"
    sleep 1
  done
  return "$code"
}
"""
# Commands that need the home's store for themselves: they have a home of the same pictures that nobody serves.
ALONE = re.compile(r"lodestone (verify|duplicates|embeddings compact)\b")
PLACES = re.compile(r"(?:https?://)?(?:localhost|127\.0\.0\.1):7860")

RUNNABLE = [
    page
    for page in pages()
    if any(
        reason_not_to_run(line) is None for block in blocks_of(page) if block.language in SHELLS for line in statements(block)
    )
]
PYTHON = [
    page
    for page in pages()
    if name_of(page) not in NO_PYTHON and any(block.language in {"python", "sql"} for block in blocks_of(page))
]


@dataclass(frozen=True)
class Reader:
    """A person with pictures, an indexed home and a running service: folder, environment and ids of one answer."""

    folder: Path
    served: Served
    run_id: str

    @property
    def url(self) -> str:
        return self.served.address.url

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LODESTONE_", "AWS_"))}
        return {
            **kept,
            "HOME": str(self.folder),
            "LODESTONE_HOME": str(self.folder / "home"),
            "LODESTONE_MODELS__CACHE": str(home_settings(self.folder / "home").models.cache),
            "LODESTONE_MODELS__THREADS": "1",
            "LODESTONE_QUERY__DEADLINE_MS": str(DEADLINE_MS),
            "PATH": os.pathsep.join([str(self.folder / "bin"), kept.get("PATH", "")]),
            "COLUMNS": "120",
            "U": self.url,
        }

    def filler(self, page: Path) -> Callable[[str], str]:
        """Return what puts the reader's own addresses, ids and folders in the places of a page's examples."""
        with Lodestone(self.url) as service:
            *_, done = service.stream(SearchRequest(query="a cat", limit=4))
            assert done.type == "done"
            shown = [hit.image_id for hit in done.response.hits]
            (tag,) = service.add_tags(TagRequest(image_ids=shown[:1], text="an example")).tags
        key, _ = ApiKey.new(KeyRequest(name="an example", scopes=[Scope.SEARCH]))  # one a page: pages revoke it
        self.served.services.session.runtime.catalog.add_key(key)
        own = {
            **OWN.get(name_of(page), {}),
            "QUERY_ID": done.response.query_id,
            "IMAGE_ID": shown[0],
            " 3f2a": f" {done.response.query_id}",
            "TAG_ID": tag.tag_id,
            "3f9c21aa": self.run_id,
            "2b0c47c8545d1ade": key.key_id,
            "/mnt/": f"{self.folder}/mnt/",
            "~/.lodestone": f"{self.folder}/home",
        }

        def filled(text: str) -> str:
            for example, value in own.items():
                text = text.replace(example, value)
            return PLACES.sub(self.url, text)

        return filled


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("reader")
    _write_files(folder)
    settings = home_settings(folder / "home")
    index(settings, folder / "Pictures", corpus="family")
    index(settings, folder / "photos", corpus="photos")
    index(settings, folder / "Trip", folder / "Sea", corpus="default")
    copy_folder(settings.home, folder / "alone")
    with Runtime.open(settings) as runtime:
        run_id = runtime.catalog.runs()[-1].run_id
    with forked_commands(folder / "bin" / "lodestone"), served_here(settings) as served:
        reader = Reader(folder, served, run_id)
        backup = ["lodestone", "backup", "create", str(folder / "mnt/disk/lodestone")]  # docs/catalog.md restores it
        subprocess.run(backup, env=reader.environment, stdin=subprocess.DEVNULL, check=True, timeout=HANG_S)
        yield reader


def _write_files(folder: Path) -> None:
    write_pictures(folder / "Pictures", drawn=6)
    write_photos(folder / "Pictures" / "1987", 1)
    write_photos(folder / "photos", 4)
    for name in ("scans", "Holiday", "archive/Holiday", "Trip", "Sea", "Sea2"):
        write_photos(folder / name, 2)
    work = folder / "work"
    write_photos(work / "photos", 3)
    first = min((work / "photos").iterdir())
    (work / "captions.tsv").write_text(f"file\tcaption\n{first.name}\tdots on a coloured ground\n", encoding="utf-8")
    for name in PICTURES:
        shutil.copy(folder / "Pictures" / "chelsea.jpg", work / name)
    contents = [path.read_bytes() for path in sorted((folder / "photos").iterdir())]
    pq.write_table(
        pa.table({"bytes": contents, "id": [f"picture {number}" for number in range(len(contents))]}), work / "photos.parquet"
    )
    for number, content in enumerate(contents[:2]):
        write_tar(work / "shards" / f"shard-{number:03}.tar", {f"{number:06}.jpg": content, f"{number:06}.txt": b"dots"})
    (folder / "mnt").mkdir()
    (folder / "bin").mkdir()
    missing = {name: code for name, code in STAND_INS.items() if shutil.which(name) is None}
    for name, code in {"python": f'exec {shlex.quote(sys.executable)} "$@"', **missing}.items():
        path = folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{code}\n", encoding="utf-8")
        path.chmod(0o755)


@pytest.mark.parametrize("page", PYTHON, ids=name_of)
def test_the_python_of_a_page_runs(page: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LODESTONE_URL", reader.url)
    monkeypatch.delenv("LODESTONE_API_KEY", raising=False)
    filled = reader.filler(page)
    picture = (reader.folder / "work" / PICTURES[0]).read_bytes()
    with Lodestone(reader.url) as service:
        first = service.search("a cat").hits[0]
        names: dict[str, Any] = {"service": service, "first": first, "picture": picture, "other_picture": picture}
        for block in blocks_of(page):
            if block.language == "python":
                exec(compile(filled(block.code), block.place, "exec"), names)
            elif block.language == "sql":
                _run_sql(filled(block.code))
        if names["service"] is not service:
            names["service"].close()


EVERY_TIME = ("README.md", "searching.md", "own-photos.md", "directories.md", "removal.md", "training.md")
"""Pages that people begin with; the others are run at night, because each takes up to fifteen seconds."""


def _run_when(page: Path) -> object:
    marks = () if page.name in EVERY_TIME else (pytest.mark.nightly, pytest.mark.slow)
    return pytest.param(page, id=name_of(page), marks=marks)


@pytest.mark.nightly_beyond(2)
@pytest.mark.parametrize("page", [_run_when(page) for page in RUNNABLE])
def test_the_commands_of_a_page_run(page: Path, reader: Reader) -> None:
    filled = reader.filler(page)
    shutil.rmtree(reader.folder / "restored", ignore_errors=True)
    lines = [PRELUDE]
    for block in blocks_of(page):
        for statement in statements(block) if block.language in SHELLS else ():
            if reason_not_to_run(statement) is None:
                home = f"LODESTONE_HOME={reader.folder / 'alone'} " if ALONE.match(statement.text) else ""
                lines += [f"place={shlex.quote(statement.place)}", home + filled(statement.text)]
    bash = shutil.which("bash")
    assert bash is not None

    done = subprocess.run(
        [bash, "-c", "\n".join(lines)],
        cwd=ROOT if any("scripts" in line for line in lines) else reader.folder / "work",
        env=reader.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=HANG_S,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-4000:]


def _run_sql(code: str) -> None:
    import duckdb

    for query in code.split(";"):
        if query.strip():
            assert duckdb.sql(query).fetchall(), query


def test_python_that_is_not_run_here_is_run_by_the_test_that_is_named() -> None:
    with_python = {block.page for block in all_blocks() if block.language == "python"}
    assert NO_PYTHON.keys() <= with_python
    for page, reason in NO_PYTHON.items():
        if reason.startswith("tests/"):
            assert Path(page).name in (ROOT / reason).read_text(encoding="utf-8")
