"""Tests of what a search does with the pictures that it found: paths for programs, viewers, copies and links."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.cli.test_answer import answer, hit
from typer.testing import CliRunner

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_cli import result_files
from lodestone_cli.answer_output import page_query
from lodestone_cli.option_groups import Commands
from lodestone_cli.options import Output, Pictures, ResultFormat
from lodestone_cli.result_files import ResultFiles, print_paths
from lodestone_schemas.searching import SearchFilters, SearchOptions, SearchRequest


class Context:
    """The parts of a command's context that files need; it remembers what it was told to say."""

    def __init__(self, content: Callable[[str], bytes] = lambda _: b"fetched") -> None:
        self.said: list[str] = []
        self.messages = SimpleNamespace(is_terminal=False, print=lambda line, **_: self.said.append(str(line)))
        self.console = self.messages
        self.api = SimpleNamespace(content=content)


@pytest.fixture
def pictures(tmp_path: Path) -> dict[str, str]:
    paths = {}
    for rank, name in ((1, "a.jpg"), (2, "b.jpg"), (3, "elsewhere/a.jpg")):
        file = tmp_path / "pictures" / name
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_bytes(name.encode())
        paths[f"id-{rank}"] = str(file)
    return paths


FOUND = answer(hit(1), hit(2), hit(3))


def apply(files: ResultFiles, paths: dict[str, str], context: Any) -> None:
    files.checked(Output.HUMAN).apply(context, FOUND, paths)


def test_copies_keep_their_names_and_nothing_is_overwritten_or_copied_twice(pictures: dict[str, str], tmp_path: Path) -> None:
    folder, context = tmp_path / "new" / "folder", Context()

    apply(ResultFiles(copy_to=folder), pictures, context)
    apply(ResultFiles(copy_to=folder), pictures, context)

    assert {file.name: file.read_text() for file in folder.iterdir()} == {
        "a.jpg": "a.jpg",
        "b.jpg": "b.jpg",
        "a-2.jpg": "elsewhere/a.jpg",
    }
    assert context.said == [f"copied 3 pictures to {folder}", f"copied 0 pictures to {folder}; 3 were there already"]


def test_links_lead_to_the_pictures(pictures: dict[str, str], tmp_path: Path) -> None:
    apply(ResultFiles(link_to=tmp_path / "links"), pictures, Context())
    apply(ResultFiles(link_to=tmp_path / "links"), pictures, Context())

    assert sorted(str(link.readlink()) for link in (tmp_path / "links").iterdir()) == sorted(pictures.values())


def test_a_picture_that_is_no_file_here_is_fetched_and_one_that_is_lost_is_named(tmp_path: Path) -> None:
    def content(image_id: str) -> bytes:
        if image_id == "id-2":
            raise NotFoundError("gone")
        return image_id.encode()

    context = Context(content)
    apply(ResultFiles(copy_to=tmp_path / "copies"), {}, context)

    assert {file.name: file.read_text() for file in (tmp_path / "copies").iterdir()} == {
        "IMG_1.jpg": "id-1",
        "IMG_3.jpg": "id-3",
    }
    assert context.said == [f"copied 2 pictures to {tmp_path / 'copies'}; 1 cannot be read: Pictures/IMG_2.jpg"]


def test_a_service_s_name_for_a_picture_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    ResultFiles(copy_to=tmp_path / "in" / "side").apply(Context(), answer(hit(1, uri="x/%2e%2e"), hit(2, uri="%2fb.jpg")), {})  # type: ignore[arg-type]

    assert sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.jpg")) == ["in/side/b.jpg", "in/side/id-1.jpg"]


@pytest.mark.skipif(sys.platform != "linux", reason="another system's viewer")
def test_the_first_pictures_are_opened_in_the_system_s_viewer(
    pictures: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(result_files.subprocess, "Popen", lambda words, **_: started.append(words))
    monkeypatch.setattr(result_files, "OPENED", 2)
    viewer = tmp_path / "xdg-open"
    viewer.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DISPLAY", ":0")

    said = Context()
    apply(ResultFiles(opened=True), pictures, said)
    assert started == [[str(viewer), pictures["id-1"]], [str(viewer), pictures["id-2"]]]
    assert said.said == ["opened the first 2 of 3 in the system's viewer"]

    viewer.unlink()
    with pytest.raises(NotFoundError, match="xdg-open"):
        apply(ResultFiles(opened=True), pictures, Context())
    with pytest.raises(NotFoundError, match="is a file of this machine"):
        apply(ResultFiles(opened=True), {}, Context())


@pytest.mark.skipif(sys.platform != "linux", reason="another system's viewer")
def test_no_viewer_is_started_where_there_is_no_screen(
    pictures: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(result_files.subprocess, "Popen", lambda words, **_: started.append(words))
    (tmp_path / "xdg-open").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(NotFoundError, match="no screen") as refused:
        apply(ResultFiles(opened=True), pictures, Context())

    assert started == []
    assert "--copy-to" in refused.value.hint


def test_a_command_takes_what_happens_with_its_pictures_as_options(tmp_path: Path) -> None:
    app, given = Commands(), []

    @app.command()
    def find(files: ResultFiles, words: str, local: bool = False) -> None:
        given.append((words, files, local))

    options = ["--format", "paths", "--pictures", "blocks", "--columns", "3", "-0", "--open", "--min-score", "0.5"]
    options += ["--copy-to", str(tmp_path), "--link-to", str(tmp_path / "links")]
    for words in (["dogs"], ["dogs", *options, "--local"]):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    every = ResultFiles(ResultFormat.PATHS, Pictures.BLOCKS, 3, True, True, tmp_path, tmp_path / "links", 0.5)
    assert given == [("dogs", ResultFiles(), False), ("dogs", every, True)]


@pytest.mark.parametrize(("nul", "end"), [(False, b"\n"), (True, b"\0")])
def test_paths_are_printed_byte_for_byte(capfdbinary: pytest.CaptureFixture[bytes], nul: bool, end: bytes) -> None:
    paths = {"id-1": "/p/a photo.jpg", "id-2": os.fsdecode(b"/p/caf\xe9.jpg"), "id-3": "/p/two\nlines.jpg"}
    context = Context()

    print_paths(context, FOUND, paths, nul=nul)  # type: ignore[arg-type]

    assert capfdbinary.readouterr().out == b"".join(os.fsencode(path) + end for path in paths.values())
    assert [line for line in context.said if "-0" in line] == ([] if nul else context.said)
    assert len(context.said) == (0 if nul else 1)


def test_a_service_elsewhere_has_no_paths_and_an_empty_answer_has_none_either(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotFoundError, match="does not tell"):
        print_paths(Context(), FOUND, {}, nul=False)  # type: ignore[arg-type]
    print_paths(Context(), answer(), {}, nul=False)  # type: ignore[arg-type]
    assert capsys.readouterr().out == ""


def test_pictures_below_a_score_are_left_out() -> None:
    assert [one.rank for one in ResultFiles(min_score=0.5).kept(FOUND).hits] == [1, 2]
    assert ResultFiles().kept(FOUND) is FOUND


def test_paths_and_a_form_for_programs_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="--output json"):
        ResultFiles(ResultFormat.PATHS).checked(Output.JSON)
    with pytest.raises(InvalidRequestError, match="-0"):
        ResultFiles(nul=True).checked(Output.YAML)
    (tmp_path / "file").touch()
    with pytest.raises(InvalidRequestError, match="--copy-to"):
        ResultFiles(copy_to=tmp_path / "file").checked(Output.HUMAN)
    assert ResultFiles(nul=True).checked(Output.HUMAN).form is ResultFormat.PATHS


PAGE = "http://127.0.0.1:7860/?q=two+dogs"


def test_the_search_page_is_opened_where_a_service_runs_and_what_was_opened_is_said(
    pictures: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    monkeypatch.setenv("DISPLAY", ":0")
    context = Context()

    ResultFiles(opened=True).apply(context, FOUND, pictures, page=PAGE)  # type: ignore[arg-type]

    assert opened == [PAGE]
    assert context.said == [f"opened {PAGE}"]

    monkeypatch.setattr("webbrowser.open", lambda _: False)
    with pytest.raises(NotFoundError) as refused:
        ResultFiles(opened=True).apply(Context(), FOUND, pictures, page=PAGE)  # type: ignore[arg-type]
    assert refused.value.hint == f"open {PAGE} yourself"


PICTURE = "00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("request_", "address"),
    [
        (SearchRequest(query="two dogs & a <cat>", limit=3), "q=two+dogs+%26+a+%3Ccat%3E"),
        (
            SearchRequest(query="at night", like=[PICTURE], without=["people"], guides=0),
            f"q=at+night&like={PICTURE}&without=people&words=1",
        ),
        (SearchRequest(query="a", filters=SearchFilters(corpora=["family", "a b"])), "q=a&corpus=family&corpus=a+b"),
        (SearchRequest(query="a", filters=SearchFilters(path_prefix="2024")), None),
        (SearchRequest(query="a", weights={"words": 2}), None),
        (SearchRequest(query="a", seed=7), None),
    ],
)
def test_a_query_has_an_address_only_if_the_page_shows_exactly_it(request_: SearchRequest, address: str | None) -> None:
    assert page_query(request_) == address


def test_a_search_by_an_indexed_picture_has_an_address() -> None:
    assert page_query(SearchOptions(), like=PICTURE) == f"like={PICTURE}"
