"""The command line does what the README says, from the first index to forgetting a corpus.

A few commands run as users start them; the others in this process, whose imports are paid for once.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from tests.support.cli import environment, lodestone, run_here
from tests.support.models import MODELS
from tests.support.photos import CAT, COFFEE, ROCKET, photo_path
from tests.support.terminal import PATIENT_PROBE, child_script, decode_sixel, in_terminal, screen_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    (folder / "2024" / "sommer é").mkdir(parents=True)
    shutil.copy(photo_path(CAT), folder / "a.png")
    shutil.copy(photo_path(COFFEE), folder / "2024" / "b.png")
    shutil.copy(photo_path(ROCKET), folder / "2024" / "sommer é" / "\u05e9\u05dc\u05d5\u05dd \N{ROCKET}.jpg")
    (folder / "a.txt").write_text("Minka on the sofa\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    home = tmp_path_factory.mktemp("home")
    done = lodestone("index", folder, "--corpus", "family", "--output", "json", home=home)
    assert done.code == 0, done.err
    assert done.json["counts"]["embedded"] == 3
    return home


def test_words_find_the_picture_and_show_its_path(home: Path, folder: Path) -> None:
    done = lodestone("search", "a cat", "-n", "1", home=home)
    assert done.code == 0, done.err
    assert str(folder / "a.png") in done.out.replace("\n", "")


@pytest.mark.parametrize(
    ("words", "name"), [("a cup of coffee", "b.png"), ("a rocket launch", "\u05e9\u05dc\u05d5\u05dd \N{ROCKET}.jpg")]
)
def test_json_output_has_paths_scores_and_timings(home: Path, words: str, name: str) -> None:
    answer = run_here("search", words, "--output", "json", home=home).json
    assert Path(answer["hits"][0]["path"]).name == name
    assert answer["hits"][0]["score"] >= answer["hits"][1]["score"]
    assert answer["timings_ms"]["total"] > 0


def test_a_terminal_shows_the_pictures_and_a_pipe_gets_no_escape_sequence(home: Path, tmp_path: Path) -> None:
    words = ("search", "a cat", "-n", "2", "--guides", "0")
    env = {**environment(home, TERM="xterm-256color"), "LODESTONE_PICTURES": "auto"}
    for name in ("COLUMNS", "LINES", "TMUX", "TERM_PROGRAM", "NO_COLOR"):
        env.pop(name, None)

    program = child_script(tmp_path, PATIENT_PROBE + "from lodestone_cli.main import main\nmain()\n")
    shown = in_terminal([sys.executable, str(program), *words], env, answer=b"\x1b[6;20;10t\x1b[?62;4c")

    assert shown.code == 0
    screen = screen_of(shown.text.replace("\x1b[c", "").replace("\x1b[16t", "").replace("\r\n", "\n"))
    sixels = [decode_sixel(graphics) for *_, graphics in screen.graphics if graphics.startswith("\x1bP")]
    assert len(sixels) == 2
    assert min(image.width for image in sixels) > 100
    assert "a.png" in "\n".join(screen.lines)
    assert any("file://" in link for link in screen.links)

    for form in ((), ("-o", "json"), ("--pictures", "sixel"), ("--format", "paths")):
        piped = run_here(*words, *form, home=home, TERM="xterm-kitty", FORCE_COLOR="")
        assert piped.code == 0
        assert "\x1b" not in piped.out + piped.err
        assert ("note: pictures are shown in a list for a terminal" in piped.err) == (form[:1] == ("--pictures",))


def test_yaml_output_is_the_same_answer(home: Path) -> None:
    first = run_here("search", "a cat", "--output", "yaml", "--guides", "0", home=home)
    assert yaml.safe_load(first.out)["hits"][0]["uri"] == "a.png"


def test_a_misspelt_query_is_corrected_and_says_how_to_search_as_written(home: Path) -> None:
    done = run_here("search", "a rokcet launch", "-n", "1", home=home)
    assert "showing results for a rocket launch" in done.out
    assert "search instead for a rokcet launch: --no-spelling" in done.out
    assert "corrected from: a rokcet launch" in run_here("explain", home=home).out
    as_written = run_here("search", "a rokcet launch", "-n", "1", "--no-spelling", home=home)
    assert "showing results for" not in as_written.out


def test_another_language_and_unknown_words_are_said(home: Path) -> None:
    german = run_here("search", "eine Katze auf dem Sofa", "-n", "1", home=home)
    assert "this looks like German" in german.out.replace("\n", " ")
    nothing = run_here("search", "asdkjh qwe", "-n", "1", home=home)
    assert "no word of the query is known" in nothing.out.replace("\n", " ")


def test_filters_restrict_the_answer(home: Path) -> None:
    answer = run_here("search", "a cat", "--path", "2024", "--output", "json", home=home).json
    assert {hit["uri"].split("/")[0] for hit in answer["hits"]} == {"2024"}


def test_a_caption_is_shown(home: Path) -> None:
    answer = run_here("search", "Minka", "--output", "json", home=home).json
    assert ["Minka on the sofa"] in [hit["captions"] for hit in answer["hits"]]


def test_explain_accounts_for_each_hit(home: Path) -> None:
    answer = run_here("search", "a cat", "--explain", "--output", "json", home=home).json
    assert all(hit["contributions"] for hit in answer["hits"])


def test_similar_leaves_out_an_indexed_picture_itself_by_its_file_and_by_its_id(
    home: Path, folder: Path, tmp_path: Path
) -> None:
    copy = shutil.copy(folder / "a.png", tmp_path / "a copy.png")
    by_copy = run_here("similar", copy, "--output", "json", home=home).json
    cat = by_copy["hits"][0]
    assert cat["uri"] == "a.png"
    by_file = run_here("similar", folder / "a.png", "--output", "json", home=home).json
    by_id = run_here("similar", cat["image_id"], "--output", "json", home=home).json
    assert len(by_id["hits"]) == 2
    for found in (by_file, by_id):
        assert cat["image_id"] not in [hit["image_id"] for hit in found["hits"]]


def test_a_file_that_changed_since_it_was_indexed_is_searched_by_as_it_is_now(home: Path, folder: Path) -> None:
    picture = folder / "a.png"
    before = picture.stat()
    os.utime(picture, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000_000))
    try:
        found = run_here("similar", picture, "--output", "json", home=home).json
    finally:
        os.utime(picture, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found["hits"][0]["uri"] == "a.png"


def test_parts_of_a_query_are_named_by_their_files(home: Path, folder: Path) -> None:
    asked = ("search", "a cat", "--like", folder / "a.png")
    assert run_here(*asked, home=home).out.startswith("showing results for a cat, like a.png\n")
    composed = run_here(*asked, "--explain", home=home).out
    assert "part picture 0.56: a.png" in composed
    assert "; composed; " in composed
    assert "part picture 0.56: a.png" in run_here("explain", home=home).out


def test_a_second_run_embeds_nothing(home: Path, folder: Path) -> None:
    done = run_here("index", folder, "--corpus", "family", "--output", "json", home=home)
    assert done.json["counts"].get("embedded", 0) == 0
    assert done.json["counts"]["unchanged"] == 3


def test_status_and_corpora_tell_what_is_there(home: Path) -> None:
    status = run_here("status", "--output", "json", home=home).json
    assert [(corpus["name"], corpus["images"]) for corpus in status["corpora"]] == [("family", 3)]
    assert all(space["current"] for space in status["spaces"].values())
    assert status["service"] is None
    assert "family" in run_here("corpus", "list", home=home).out


def test_config_show_names_the_source_of_each_value(home: Path) -> None:
    rows = run_here("config", "show", "--output", "json", home=home, LODESTONE_INDEX__WORKERS="3").json
    assert rows["index.workers"] == {"value": 3, "source": "LODESTONE_INDEX__WORKERS"}
    assert rows["home"]["source"] == "LODESTONE_HOME"
    assert rows["query.depth"]["source"] == "default"


def test_config_show_prints_values_that_look_like_markup_as_they_are(tmp_path: Path) -> None:
    done = run_here("config", "show", home=tmp_path / "[red]home[/x]", COLUMNS="400")
    assert done.code == 0, done.err
    assert f"settings file: {tmp_path}/[red]home[/x]/lodestone.toml" in done.out
    assert done.out.count("[red]home[/x]") == 2


def test_doctor_is_content_with_a_working_home(home: Path) -> None:
    done = run_here("doctor", "--output", "json", home=home)
    assert done.code == 0, done.out
    assert {check["name"]: check["ok"] for check in done.json}["text encoder"]
    assert {check["name"]: check["finding"] for check in done.json}["model cache"].startswith(f"{MODELS} (")
    told = run_here("doctor", home=home)
    assert told.out.rstrip().splitlines()[-2:] == ["Nothing is wrong.", 'Next: lodestone search "two people on a beach"'], (
        told.out
    )


def test_a_removed_corpus_is_gone_everywhere_and_the_files_stay(tmp_path: Path, folder: Path) -> None:
    home = tmp_path / "home"
    assert run_here("index", folder, "--corpus", "gone", home=home).code == 0
    assert run_here("corpus", "remove", "gone", "--yes", home=home).code == 0
    answer = run_here("search", "a cat", "--output", "json", home=home)
    assert answer.json["hits"] == []
    assert not list((home / "embeddings").rglob("*.parquet"))
    assert not [p for p in (home / "thumbnails").rglob("*") if p.is_file()]
    assert (folder / "a.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("search", ""), 2, "invalid_request"),
        (("search", "   "), 2, "invalid_request"),
        (("search", "x" * 10_000), 2, "invalid_request"),
        (("search", "a cat", "--corpus", "nobody"), 2, "unknown_name"),
        (("search", "a cat", "--fusion", "magic"), 2, "unknown_name"),
        (("search", "a cat", "--profile", "enormous"), 2, "unknown_name"),
        (("search", "a cat", "--from", "soon"), 2, "invalid_request"),
        (("index", "/nowhere/at/all"), 3, "not_found"),
        (("similar", "/nowhere.jpg"), 3, "not_found"),
        (("similar", "00000000-0000-0000-0000-000000000000"), 3, "not_found"),
        (("corpus", "remove", "nobody", "--yes"), 2, "unknown_name"),
    ],
)
def test_wrong_input_gives_one_error_line_a_hint_and_a_stable_exit_code(
    home: Path, arguments: tuple[str, ...], code: int, error: str
) -> None:
    done = run_here(*arguments, home=home)
    assert done.code == code, done.err
    assert done.err.startswith(f"error [{error}]")
    assert "hint:" in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


def test_json_errors_are_json(home: Path) -> None:
    import json

    done = lodestone("search", "a cat", "--corpus", "nobody", "--output", "json", home=home)
    assert json.loads(done.err)["error"]["code"] == "unknown_name"


def test_searching_before_indexing_says_what_to_do(tmp_path: Path) -> None:
    done = run_here("search", "a cat", home=tmp_path / "none")
    assert done.code == 3
    assert "lodestone index" in done.err
    assert not (tmp_path / "none").exists()


def test_an_empty_folder_is_told_and_harms_nothing(home: Path, tmp_path: Path) -> None:
    done = run_here("index", tmp_path, "--corpus", "family", home=home)
    assert "no pictures" in (done.out + done.err)
    assert run_here("status", "--output", "json", home=home).json["corpora"][0]["images"] == 3


def test_similar_to_something_that_is_no_picture_says_so(home: Path, tmp_path: Path) -> None:
    (tmp_path / "x.jpg").write_text("not a picture", encoding="utf-8")
    done = run_here("similar", tmp_path / "x.jpg", home=home)
    assert done.code == 10
    assert done.err.startswith("error [bad_image]")


def test_a_home_of_a_newer_version_is_refused(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "home.json").write_text('{"format": 999, "written_by": "9.9"}', encoding="utf-8")
    for arguments in (("search", "a cat"), ("index", str(folder)), ("status",)):
        done = run_here(*arguments, home=tmp_path)
        assert done.code == 5
        assert done.err.startswith("error [home_too_new]")
    assert [p.name for p in tmp_path.iterdir()] == ["home.json"]
