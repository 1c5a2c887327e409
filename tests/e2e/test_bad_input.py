"""A wrong folder, name or query gets one clear error, and costs nothing but itself.

Each meets the real command line, real files and a real index. The parts' own tests say the same of each part alone.
"""

from __future__ import annotations

import os
import shutil
import struct
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.bad_input import (  # noqa: F401 - fixtures
    assert_one_clear_error,
    best,
    index,
    own_home,
    run,
    run_apart,
    shared_home,
    small_base,
    three_photos,
)
from tests.support.home import open_runtime, settings_for
from tests.support.models import model_context
from tests.support.photos import CAT, COFFEE, photo_path
from tests.support.pictures import write_photo, write_photos

from lodestone.backbones.registry import make_backbone
from lodestone.catalog.records import RunState
from lodestone.errors import UnknownNameError
from lodestone.generators.registry import GeneratorContext, make_generator
from lodestone.spaces.registry import make_space
from lodestone_schemas.api import MAX_QUERY_CHARS

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


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("kind", ["pipe", "device", "nothing"])
def test_what_is_neither_folder_nor_file_is_refused_at_once(home: Path, tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    path = {"pipe": str(tmp_path / "pipe.jpg"), "device": "/dev/zero", "nothing": ""}[kind]
    for verb in ("index", "similar"):
        # Whoever reads the device never ends, and takes all memory.
        done = run_apart(verb, path, home=home, timeout=60) if kind == "device" else run(verb, path, home=home)
        assert_one_clear_error(done, 2, "invalid_request")


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
    assert "1 picture can be found" in done.out
    assert "Warning" not in done.err


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
    from lodestone_serve.http.application import create_app
    from lodestone_serve.inference.home import home_services

    app = create_app(home_services(settings_for(base)), settings=ServeSettings(), token="a-secret")
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
