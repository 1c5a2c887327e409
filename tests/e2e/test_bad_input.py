"""Does wrong input, of every kind that we could think of, cost nothing but itself?

Each kind meets the real command line, real files and a real index: one clear error or one failure row, the rest done, nothing
lost. The parts' own tests say the same of each part alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import sqlite3
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.cli import Finished, lodestone, run_here
from tests.support.home import open_runtime, settings_for
from tests.support.models import model_context
from tests.support.photos import CAT, COFFEE, ROCKET, photo, photo_path
from tests.support.pictures import (
    huge_jpeg_bytes,
    write_bad_files,
    write_every_format,
    write_photo,
    write_photos,
    write_strange_names,
    write_symlink_loops,
)
from tests.support.small_disk import SmallDisk, small_disk

from lodestone.backbones.registry import make_backbone
from lodestone.catalog.records import RunState
from lodestone.config.home import Home
from lodestone.errors import ServiceUnavailableError, UnknownNameError
from lodestone.generators.registry import GeneratorContext, make_generator
from lodestone.indexing.report import IndexReport, IndexRequest
from lodestone.indexing.run import index_paths
from lodestone.indexing.uris import path_of, uri_of
from lodestone.service import ServiceAddress, ServiceClient, find_service
from lodestone.spaces.registry import make_space
from lodestone_schemas.api import MAX_QUERY_CHARS, SearchRequest

SETTINGS = {
    "LODESTONE_INDEX__EXECUTOR": "inline",
    "LODESTONE_MODELS__THREADS": "1",
    "LODESTONE_STORE__LOCK_TIMEOUT_S": "0.3",
}


def run(*arguments: str | Path, home: Path, **more: str) -> Finished:
    """The command line in this process: its imports are paid for once."""
    return run_here(*arguments, home=home, **{**SETTINGS, **more})


def run_apart(*arguments: str | Path, home: Path, prefix: tuple[str, ...] = (), timeout: float = 240, **more: str) -> Finished:
    """The command line in a process of its own."""
    return lodestone(*arguments, home=home, prefix=prefix, timeout=timeout, **{**SETTINGS, **more})


def assert_one_clear_error(done: Finished, exit_code: int, code: str, *names: str) -> None:
    assert done.code == exit_code, done.err
    last = done.err[done.err.rindex("error [") :]  # progress may come before it
    assert last.startswith(f"error [{code}]")
    assert "\n  hint: " in last
    assert "Traceback" not in done.err
    assert done.out == ""
    for name in names:
        assert name in last


# One folder with everything in it


@dataclass(frozen=True)
class Zoo:
    """A folder with good and bad files of every kind, indexed once by the command line."""

    folder: Path
    home: Path
    first: Finished
    good: frozenset[str]
    bad: dict[str, str]  # uri -> failure code
    prefix: tuple[str, ...]

    def index(self, *arguments: str) -> Finished:
        return run_apart(
            "index", self.folder, "--corpus", "zoo", "--output", "json", *arguments, home=self.home, prefix=self.prefix
        )


def _obeying_permissions() -> tuple[str, ...] | None:
    """Words that run a command which file permissions hold for; root is above them unless it gives that up."""
    if os.geteuid() != 0:
        return ()
    rights = "-dac_override,-dac_read_search"
    words = ("setpriv", f"--inh-caps={rights}", f"--bounding-set={rights}")
    works = shutil.which("setpriv") and subprocess.run([*words, "true"], check=False, capture_output=True).returncode == 0
    return words if works else None


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zoo]:
    folder, home = tmp_path_factory.mktemp("pictures") / "zoo", tmp_path_factory.mktemp("zoo-home")
    good = {str(path.relative_to(folder)) for path in write_every_format(folder / "good").values()}
    bad = {
        str(path.relative_to(folder)): code
        for path, code in write_bad_files(folder / "bad", huge=True).values()
        if path.exists()
    }
    (folder / "good" / "huge.jpg").write_bytes(huge_jpeg_bytes())
    good |= {"good/huge.jpg"}
    names = write_strange_names(folder / "names", invalid_utf8=sys.platform == "linux")
    good |= {uri_of(f"names/{os.fsdecode(name)}") for name in names}
    write_symlink_loops(folder / "loops")
    good |= {"loops/inner/only.jpg"}
    (folder / "a folder.jpg").mkdir()
    shutil.copy(photo_path(CAT), folder / "a folder.jpg" / "cat.png")
    good |= {"a folder.jpg/cat.png"}
    os.mkfifo(folder / "pipe.jpg")  # reading it would never end: not a picture, not a failure
    if Path("/proc/self/mem").exists():  # a file that the kernel lists and refuses to read, even to root
        (folder / "broken-disk.jpg").symlink_to("/proc/self/mem")
        bad |= {"broken-disk.jpg": "unreadable"}
    prefix = _obeying_permissions()
    if prefix is not None:
        write_photos(folder / "secret", 1)
        write_photos(folder / "locked", 1)
        (folder / "locked" / "000000.jpg").chmod(0)
        (folder / "secret").chmod(0)
        bad |= {"locked/000000.jpg": "unreadable", "secret": "unreadable"}
    words = ("--corpus", "zoo", "--output", "json")
    first = run_apart("index", folder, *words, home=home, prefix=prefix or (), LODESTONE_INDEX__SLICE_SIZE="16")
    yield Zoo(folder, home, first, frozenset(good), bad, prefix or ())
    if prefix is not None:
        (folder / "secret").chmod(0o700)  # so that it can be removed


def test_bad_files_do_not_cost_the_good_ones(zoo: Zoo) -> None:
    assert zoo.first.code == 0, zoo.first.err
    report = zoo.first.json
    assert report["images"] == len(zoo.good)
    assert report["counts"]["embedded"] == len(zoo.good)
    assert report["problems"] == []


def test_every_bad_file_is_listed_with_its_reason_and_no_other(zoo: Zoo) -> None:
    rows = run("status", "--failures", "--output", "json", home=zoo.home).json
    assert {row["uri"]: row["code"] for row in rows} == zoo.bad
    assert all(row["message"] and row["corpus"] == row["root"] == "zoo" for row in rows)
    shown = run("status", "--failures", home=zoo.home)
    assert shown.code == 0, shown.err
    assert len(shown.out.splitlines()) == len(zoo.bad)


def test_every_good_picture_can_be_found_under_its_name(zoo: Zoo) -> None:
    done = run("search", "a picture", "--limit", "200", "--output", "json", home=zoo.home)
    assert done.code == 0, done.err
    hits = done.json["hits"]
    assert {hit["uri"] for hit in hits} == zoo.good
    assert len(hits) == len(zoo.good)
    for hit in hits:
        file = path_of(zoo.folder, hit["uri"])
        assert file.is_file()
        if "path" in hit:
            assert Path(hit["path"]) == file
        else:  # JSON holds text, and this name is none
            assert hit["uri"].startswith("bytes:")


def test_names_of_every_script_are_shown_without_breaking_the_list(zoo: Zoo) -> None:
    done = run_apart("search", "a picture", "--limit", "200", "--path", "names", home=zoo.home)
    assert done.code == 0, done.err
    assert "\u7167\u7247.jpg" in done.out
    assert "\N{CAT}" in done.out
    assert "line\nbreak" not in done.out
    assert "\u202e" not in done.out  # would turn the rest of the line around


def test_a_picture_among_the_bad_is_found_by_words(zoo: Zoo) -> None:
    found = run("search", "a cat", "--limit", "1", "--output", "json", home=zoo.home).json
    assert found["hits"][0]["uri"] == "a folder.jpg/cat.png"


@pytest.mark.parametrize("kind", ["oversized", "reduced"])
def test_20000_x_20000_is_a_picture_as_jpeg_and_a_failure_as_png(zoo: Zoo, kind: str) -> None:
    if kind == "oversized":
        rows = {row["uri"]: row for row in run("status", "--failures", "--output", "json", home=zoo.home).json}
        assert rows["bad/huge.png"]["code"] == "too_large"
        assert "512 MB are allowed" in rows["bad/huge.png"]["message"]
    else:
        done = run("similar", zoo.folder / "good" / "huge.jpg", "--limit", "1", "--output", "json", home=zoo.home)
        assert done.json["hits"][0]["uri"] == "good/huge.jpg"


def test_a_second_run_embeds_nothing_and_loses_nothing(zoo: Zoo) -> None:
    again = zoo.index()
    assert again.code == 0, again.err
    counts = again.json["counts"]
    assert counts.get("embedded", 0) == 0
    assert counts.get("gone", 0) == 0
    assert again.json["images"] == len(zoo.good)
    test_every_bad_file_is_listed_with_its_reason_and_no_other(zoo)
    test_every_good_picture_can_be_found_under_its_name(zoo)


def test_permissions_were_tried(zoo: Zoo) -> None:
    if "secret" not in zoo.bad:
        pytest.skip("as root, without setpriv, nothing is unreadable by its permissions")
    assert "Permission denied" in run("status", "--failures", home=zoo.home).out


# A small home that the other tests share


def index(folder: Path, *paths: Path, **options: Any) -> IndexReport:
    with open_runtime(folder) as runtime:
        return index_paths(runtime, IndexRequest(tuple(paths), **options))


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for name in (CAT, COFFEE, ROCKET):
        photo(name).save(folder / Path(name).with_suffix(".jpg"))
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, photos: Path) -> Path:
    """A folder whose `home` holds three photos."""
    base = tmp_path_factory.mktemp("base")
    assert index(base, photos, corpus="photos").images == 3
    return base


@pytest.fixture
def home(base: Path) -> Path:
    """The shared home; tests leave it as it is."""
    return base / "home"


@pytest.fixture
def own(base: Path, tmp_path: Path) -> Path:
    """A folder with a copy of the shared home, to be changed."""
    shutil.copytree(base / "home", tmp_path / "own" / "home")
    return tmp_path / "own"


def best(words: str, home: Path) -> str:
    done = run("search", words, "--limit", "1", "--output", "json", home=home)
    assert done.code == 0, done.err
    return str(done.json["hits"][0]["uri"])


# Folders


def test_a_missing_and_an_empty_folder_are_told_and_nothing_changes(home: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    missing = run("index", tmp_path / "nowhere", "--corpus", "photos", home=home)
    assert_one_clear_error(missing, 3, "not_found", str(tmp_path / "nowhere"))
    empty = run("index", tmp_path / "empty", "--corpus", "photos", home=home)
    assert_one_clear_error(empty, 2, "invalid_request", "no pictures", str(tmp_path / "empty"))
    assert best("a cat", home) == "chelsea.jpg"


def test_beside_a_good_folder_they_cost_nothing(own: Path, tmp_path: Path) -> None:
    write_photos(tmp_path / "more", 2)
    (tmp_path / "empty").mkdir()
    done = run("index", tmp_path / "nowhere", tmp_path / "empty", tmp_path / "more", "--output", "json", home=own / "home")
    assert done.code == 0, done.err
    assert done.json["images"] == 2
    assert {problem["code"] for problem in done.json["problems"]} == {"not_found", "invalid_request"}


@pytest.mark.parametrize("kind", ["pipe", "device", "nothing"])
def test_what_is_neither_folder_nor_file_is_refused_at_once(home: Path, tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    path = {"pipe": str(tmp_path / "pipe.jpg"), "device": "/dev/zero", "nothing": ""}[kind]
    for verb in ("index", "similar"):
        assert_one_clear_error(run_apart(verb, path, home=home, timeout=60), 2, "invalid_request")


def test_names_that_look_like_markup_are_shown_as_they_are(tmp_path: Path) -> None:
    name, home = "[bold][red]:fire:\x1b[2J", tmp_path / "[/x] home"
    write_photos(tmp_path / name, 1)
    (tmp_path / name / "[link=x].jpg").write_bytes(b"nothing")
    (tmp_path / name / "000000.txt").write_text("[/i] a caption", encoding="utf-8")
    commands = (
        ("index", tmp_path / name, "--corpus", "[/c]"),
        ("search", "a cat", "--explain"),
        ("status",),
        ("status", "--failures"),
        ("corpus", "list"),
    )
    for arguments in commands:
        done = run(*arguments, home=home)
        assert done.code == 0, done.err
        assert "\x1b" not in done.out
        assert arguments[0] == "index" or "[bold][red]:fire:" in done.out
    assert run("corpus", "remove", "[/c]", "--yes", home=home).code == 0


@pytest.mark.skipif(sys.platform != "linux", reason="this file system takes no names that are not UTF-8")
def test_a_folder_whose_name_is_no_text_is_refused_and_found_through_its_parent(tmp_path: Path) -> None:
    folder = tmp_path / "parent" / os.fsdecode(b"na\xefve-\xff")
    write_photos(folder, 1)
    assert_one_clear_error(run("index", folder, home=tmp_path / "home"), 2, "invalid_request", "parent")
    assert index(tmp_path, tmp_path / "parent").images == 1


def test_two_roots_with_the_same_relative_names_do_not_meet(tmp_path: Path) -> None:
    for side, name in (("left", CAT), ("right", COFFEE)):
        (tmp_path / side / "album").mkdir(parents=True)
        shutil.copy(photo_path(name), tmp_path / side / "album" / "1.png")
    report = index(tmp_path, tmp_path / "left" / "album", tmp_path / "right" / "album")
    assert report.images == 2
    for words, folder in (("a cat", "left"), ("a cup of coffee", "right")):
        hits = run("search", words, "--output", "json", home=tmp_path / "home").json["hits"]
        assert [hit["uri"] for hit in hits] == ["1.png", "1.png"]
        assert hits[0]["path"] == str(tmp_path / folder / "album" / "1.png")
        assert len({hit["image_id"] for hit in hits}) == 2
    only = run("search", "a cat", "--root", "album-2", "--output", "json", home=tmp_path / "home").json["hits"]
    assert [hit["path"] for hit in only] == [str(tmp_path / "right" / "album" / "1.png")]


# No space left


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with ExitStack() as stack:
        opened = stack.enter_context(small_disk(tmp_path / "disk"))
        if opened is None:
            pytest.skip("this system allows no mounts; tests/integration/test_index_inline.py has a full disk without one")
        yield opened


@pytest.mark.parametrize("spare", [64 * 1024, 24 * 2**20], ids=["the catalog and files do not fit", "the vectors do not fit"])
def test_a_full_disk_is_told_and_the_same_command_completes_once_there_is_room(
    disk: SmallDisk, photos: Path, tmp_path: Path, spare: int
) -> None:
    """The home lies on a real file system without room (a tmpfs made small)."""
    home = disk.path / "home"
    first = run_apart("index", photos, "--corpus", "first", home=home, prefix=disk.prefix)
    assert first.code == 0, first.err
    write_photos(tmp_path / "more", 12, size=(600, 400))
    disk.leave(spare)
    words = ("index", tmp_path / "more", "--corpus", "second", "--output", "json")
    full = run_apart(*words, home=home, prefix=disk.prefix)
    assert_one_clear_json_error(full, 11, "no_space_left")
    disk.grow()
    again = run_apart(*words, home=home, prefix=disk.prefix)
    assert again.code == 0, again.err
    assert again.json["images"] == 12
    found = run_apart("search", "a cat", "--limit", "100", "--output", "json", home=home, prefix=disk.prefix).json["hits"]
    assert found[0]["uri"] == "chelsea.jpg"
    assert len(found) == 15
    assert run_apart("status", "--failures", "--output", "json", home=home, prefix=disk.prefix).json == []


def test_a_search_on_a_disk_in_memory_without_room_says_so_instead_of_dying(disk: SmallDisk, photos: Path) -> None:
    """The engine reads its sparse files when it opens them, and a tmpfs gives a page to every hole that is read."""
    home = disk.path / "home"
    assert run_apart("index", photos, home=home, prefix=disk.prefix).code == 0
    disk.leave(2**20)
    words = ("search", "a cat", "--output", "json")
    assert_one_clear_json_error(run_apart(*words, home=home, prefix=disk.prefix), 11, "no_space_left")
    disk.grow()
    assert run_apart(*words, home=home, prefix=disk.prefix).json["hits"]


def assert_one_clear_json_error(done: Finished, exit_code: int, code: str) -> None:
    assert done.code == exit_code, done.err
    error = json.loads(done.err.splitlines()[-1])["error"]
    assert error["code"] == code
    assert error["detail"]
    assert error["hint"]
    assert "Traceback" not in done.err
    assert done.out == ""


# What people are told


def test_a_run_that_failed_takes_one_line_of_status_and_the_store_is_left_alone(own: Path) -> None:
    with open_runtime(own) as runtime:
        corpus = runtime.catalog.ensure_corpus("long")
        run_id = runtime.catalog.start_run("index", corpus.corpus_id).run_id
        runtime.catalog.finish_run(run_id, RunState.FAILED, "[/x] it\nfailed\n" + "at great length " * 50)
        assert runtime.store.collections()  # another process's lock, for the command
        done = run("status", home=own / "home", COLUMNS="80")
    assert done.code == 0, done.err
    line = next(line for line in done.out.splitlines() if run_id[:8] in line)
    assert "failed" in line
    assert "[/x] it failed at great" in line
    assert len(line) == 80
    assert line.endswith("\N{HORIZONTAL ELLIPSIS}")
    assert done.out.count("at great length") <= 3


def test_blemishes_in_metadata_are_not_told_on_the_terminal(tmp_path: Path) -> None:
    """EXIF whose maker and date point behind its end: the picture is fine, and Pillow would warn three times."""
    tags = struct.pack("<HHII", 0x010F, 2, 400, 5000) + struct.pack("<HHII", 0x0132, 2, 20, 9000)
    write_photo(tmp_path / "photos" / "a.jpg", exif=b"Exif\0\0II*\0\x08\0\0\0\x02\0" + tags + b"\0")
    done = run_apart("index", tmp_path / "photos", home=tmp_path / "home", PYTHONWARNINGS="always::UserWarning")
    assert done.code == 0, done.err
    assert "1 pictures" in done.out
    assert "Warning" not in done.err


# A second opener

# A real index run that stops when it begins to load, with the store's lock, until a line comes in.
OWNER = """
import sys
from pathlib import Path
from tests.support.home import settings_for
from lodestone.indexing.progress import Stage
from lodestone.indexing.report import IndexRequest
from lodestone.indexing.run import index_paths
from lodestone.runtime import Runtime

waited = False
def progress(event):
    global waited
    if event.stage is Stage.LOAD and not waited:
        waited = True
        print("loading", flush=True)
        sys.stdin.readline()

with Runtime.open(settings_for(Path(sys.argv[1])), purpose="lodestone index") as runtime:
    report = index_paths(runtime, IndexRequest((Path(sys.argv[2]),), corpus="owner"), progress=progress)
    print(report.images, flush=True)
"""


def test_a_second_opener_is_told_who_writes_and_nobody_loses_anything(own: Path, tmp_path: Path) -> None:
    write_photos(tmp_path / "owners", 10)
    write_photos(tmp_path / "others", 4)
    home = own / "home"
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(own), str(tmp_path / "owners")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline().strip() == "loading"
        who = f"process {owner.pid} (lodestone index)"
        assert_one_clear_error(run("search", "a cat", home=home), 6, "store_locked", who)
        others = ("index", tmp_path / "others", "--corpus", "others")
        assert_one_clear_error(run(*others, home=home), 6, "store_locked", who)
        same = run("index", tmp_path / "owners", "--corpus", "owner", home=home)
        assert_one_clear_error(same, 6, "store_locked", "being indexed")
        assert run("status", home=home).code == 0  # the catalog can be read meanwhile
        assert owner.communicate("go on\n", timeout=120)[0].strip() == "10"
        assert owner.returncode == 0
    finally:
        owner.kill()
    again = run(*others, "--output", "json", home=home)
    assert again.code == 0, again.err
    assert again.json["images"] == 4
    assert again.json["counts"].get("embedded", 0) == 0  # the pictures were embedded before the store was refused
    found = run("search", "a cat", "--limit", "100", "--output", "json", home=home).json["hits"]
    assert len(found) == 3 + 10 + 4
    assert found[0]["uri"] == "chelsea.jpg"


# Queries and names


LONG = "long " * 2_000
UNSEEN = "\u200b\u2060"


@pytest.mark.parametrize("query", ["", " \t\n", UNSEEN, LONG], ids=["empty", "blank", "invisible", "10,000 characters"])
def test_a_query_without_words_or_with_too_many_is_one_error(home: Path, query: str) -> None:
    assert_one_clear_error(run("search", query, home=home), 2, "invalid_request")


@pytest.mark.parametrize("query", ["\N{CAT}\N{CAT FACE}", "'; DROP TABLE images; --", "x" * MAX_QUERY_CHARS, "--", "[bold]%s"])
def test_a_strange_query_is_an_ordinary_one(home: Path, query: str) -> None:
    done = run("search", "--output", "json", "--", query, home=home)
    assert done.code == 0, done.err
    assert len(done.json["hits"]) == 3


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (("search", "a cat", "--corpus", "nowhere"), {}),
        (("search", "a cat", "--root", "nowhere"), {}),
        (("search", "a cat", "--fusion", "nowhere"), {}),
        (("search", "a cat", "--profile", "nowhere"), {}),
        (("search", "a cat"), {"LODESTONE_QUERY__FUSION": "nowhere"}),
        (("search", "a cat"), {"LODESTONE_QUERY__GENERATORS": '["nowhere"]'}),
        (("index", ".", "--profile", "nowhere"), {}),
        (("corpus", "remove", "nowhere", "--yes"), {}),
    ],
    ids=["corpus", "root", "fusion", "profile", "configured fusion", "configured generator", "index's profile", "removal"],
)
def test_an_unknown_name_is_told_with_those_that_are_known(
    home: Path, arguments: tuple[str, ...], variables: dict[str, str]
) -> None:
    assert_one_clear_error(run(*arguments, home=home, **variables), 2, "unknown_name", "'nowhere'", "hint: known: ")


def test_an_unknown_backbone_space_and_generator_are_told_with_those_that_are_known(base: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown backbone 'nowhere'") as error:
        make_backbone("nowhere", model_context())
    assert "efficientnet-lite0" in error.value.hint
    with pytest.raises(UnknownNameError, match="unknown space 'nowhere'") as error:
        make_space("nowhere", model_context())
    assert "labels" in error.value.hint
    with open_runtime(base) as runtime:
        with pytest.raises(UnknownNameError, match="unknown generator 'nowhere'") as error:
            make_generator("nowhere", GeneratorContext(store=runtime.store, catalog=runtime.catalog))
        assert "exemplar" in error.value.hint


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "x" * 1_000])
def test_a_corpus_needs_a_name_that_can_be_typed(home: Path, photos: Path, name: str) -> None:
    assert_one_clear_error(run("index", photos, "--corpus", name, home=home), 2, "invalid_request")
    assert [corpus["name"] for corpus in run("corpus", "list", "--output", "json", home=home).json] == ["photos"]


@pytest.fixture
async def http(base: Path) -> AsyncIterator[httpx.AsyncClient]:
    """The HTTP application over the shared home, in this process."""
    from lodestone.config.settings import ServeSettings
    from lodestone_serve.api import create_app
    from lodestone_serve.home_services import HomeServices

    app = create_app(HomeServices(settings_for(base)), settings=ServeSettings(), token="a-secret")
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860") as client,
    ):
        yield client


async def test_the_service_refuses_the_same_with_problems_and_goes_on(http: httpx.AsyncClient) -> None:
    wrong: list[tuple[dict[str, Any], int, str]] = [
        *(({"query": query}, 422, "invalid_request") for query in ("", "  ", UNSEEN, LONG)),
        ({"query": "a cat", "limit": 0}, 422, "invalid_request"),
        ({"query": "a cat", "filters": {"path_prefix": "../.."}}, 422, "invalid_request"),
        ({"query": "a cat", "filters": {"corpora": ["nowhere"]}}, 404, "unknown_name"),
        ({"query": "a cat", "filters": {"roots": ["nowhere"]}}, 404, "unknown_name"),
        ({"query": "a cat", "fusion": "nowhere"}, 404, "unknown_name"),
        ({"query": "a cat", "spaces": ["nowhere"]}, 404, "unknown_name"),
        ({"query": "a cat", "generators": ["nowhere"]}, 404, "unknown_name"),
    ]
    for body, status, code in wrong:
        for route in ("/v1/search", "/v1/search/stream"):
            answer = await http.post(route, json=body)
            assert answer.status_code == status, (body, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
            problem = answer.json()
            assert problem["code"] == code
            assert problem["hint"]
            assert code != "unknown_name" or problem["known"]
    answer = await http.post("/v1/search", json={"query": "a cat"})
    assert answer.json()["hits"][0]["uri"] == "chelsea.jpg"


# A service that isn't there


@pytest.fixture
def silent() -> Iterator[int]:
    """A port where somebody listens and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _dead_pid() -> int:
    ended = subprocess.Popen(["true"])
    ended.wait()
    return ended.pid


def _address(port: int, pid: int) -> ServiceAddress:
    return ServiceAddress(f"http://127.0.0.1:{port}", pid, "token", "0.1.0", datetime.now(UTC))


@pytest.mark.parametrize("kind", ["dead process", "nobody listens", "nobody answers", "garbage"])
def test_without_the_service_that_was_there_commands_do_the_work_themselves(own: Path, silent: int, kind: str) -> None:
    home = Home(own / "home")
    if kind == "garbage":
        home.service.write_bytes(b'{"url": "http://127.0.0.1:1", "pid": \xff')
    else:
        port = silent if kind == "nobody answers" else _closed_port()
        _address(port, _dead_pid() if kind == "dead process" else os.getpid()).write(home)
    assert find_service(home, timeout_s=0.5) is None
    assert best("a cat", home.path) == "chelsea.jpg"
    assert run("status", "--output", "json", home=home.path).json["service"] is None


def test_a_client_of_a_service_that_has_gone_says_so_and_what_to_do() -> None:
    with ServiceClient(_address(_closed_port(), os.getpid())) as client:
        asked = (
            lambda: client.search(SearchRequest(query="a cat")),
            lambda: list(client.stream(SearchRequest(query="a cat"))),
            client.corpora,
            client.status,
            lambda: list(client.sync()),
        )
        for ask in asked:
            with pytest.raises(ServiceUnavailableError, match=r"127\.0\.0\.1") as error:
                ask()
            assert "lodestone serve" in error.value.hint
            assert (error.value.code, error.value.exit_code) == ("service_unavailable", 8)


# A home of a newer version


def _contents(home: Path) -> dict[str, str]:
    """Content of every file but those that come and go with a database connection."""
    files = (path for path in sorted(home.rglob("*")) if path.is_file() and not path.name.endswith(("-wal", "-shm", ".lock")))
    return {str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("what", ["home", "catalog"])
def test_a_home_of_a_newer_version_is_refused_and_left_alone(own: Path, photos: Path, what: str) -> None:
    home = own / "home"
    if what == "home":
        (home / "home.json").write_text('{"format": 999, "written_by": "9.9"}', encoding="utf-8")
    else:
        with sqlite3.connect(home / "catalog.sqlite") as database:
            database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.close()
    before = _contents(home)
    for arguments in (
        ("search", "a cat"),
        ("index", photos),
        ("status",),
        ("corpus", "list"),
        ("similar", photos / "coffee.jpg"),
    ):
        assert_one_clear_error(run(*arguments, home=home), 5, "home_too_new", "999", "upgrade")
    assert _contents(home) == before
