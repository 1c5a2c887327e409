"""The command line alone explains, judges, teaches and takes back, without a service and beside a running one."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.cli import Finished, run_here
from tests.support.homes import home_settings, index, write_pictures
from tests.support.image_servers import ImageServer
from tests.support.served import served_here

ROCKET = "a rocket launch at night"
SETTINGS = {
    "LODESTONE_MODELS__THREADS": "1",
    "LODESTONE_STORE__LOCK_TIMEOUT_S": "0.3",
    "COLUMNS": "80",
}


@dataclass(frozen=True)
class Terminal:
    """A home with captioned photographs and a local engine, and the command line over it."""

    home: Path
    pictures: Path

    def __call__(self, *arguments: str | Path) -> Finished:
        return run_here(*arguments, home=self.home, **SETTINGS)

    def good(self, *arguments: str | Path) -> str:
        done = self(*arguments)
        assert done.code == 0, done.err
        assert "\N{REPLACEMENT CHARACTER}" not in done.out
        return done.out

    def data(self, *arguments: str | Path) -> dict:
        done = self(*arguments, "--output", "json")
        assert done.code == 0, done.err
        return done.json

    def asked(self, words: str, *more: str) -> dict:
        return self.data("search", words, "--limit", "4", "--no-gate", "--local", "--deadline", "60000", *more)


@pytest.fixture(scope="module")
def engine() -> Iterator[ImageServer]:
    with ImageServer() as server:
        yield server


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory, engine: ImageServer) -> Terminal:
    folder = tmp_path_factory.mktemp("cli")
    pictures, home = folder / "pictures", folder / "home"
    write_pictures(pictures, drawn=4)
    (pictures / "rocket.txt").write_text(f"{ROCKET}\n")
    index(home_settings(home), pictures)
    (home / "lodestone.toml").write_text(
        f'[generators.studio]\nkind = "openai"\nurl = "{engine.url}/v1/images/generations"\ntimeout_s = 10\ncost = 0.5\n'
    )
    return Terminal(home, pictures)


def assert_one_error(done: Finished, exit_code: int, code: str, *words: str) -> None:
    assert done.code == exit_code, done.out + done.err
    assert done.err.startswith(f"error [{code}]: "), done.err
    lines = done.err.splitlines()
    assert len(lines) == 2, done.err
    assert lines[1].startswith("  hint: "), done.err
    assert len(lines[1]) > len("  hint: ")
    for word in words:
        assert word in done.err


def tagged_hits(answer: dict) -> set[str]:
    """Files that tags helped to be found."""
    return {hit["path"] for hit in answer["hits"] if any(part["space"] == "tags" for part in hit["contributions"])}


# -- queries -------------------------------------------------------------------------------------------------------------------


def test_an_answer_is_explained_by_files_and_parts_and_replayed(cli: Terminal) -> None:
    answer = cli.asked(ROCKET)
    short = answer["query_id"][:8]
    told = cli.good("explain", short, "--limit", "2")
    assert str(cli.pictures / "rocket.jpg") in told.replace("\n", "")
    assert "captions by text, rank 1, similarity " in told
    assert "exemplar/0" in told
    assert "rocket.jpg: " in told  # where the guide comes from
    assert "+0.000" not in told

    facts = cli.data("explain", short)
    assert [hit["image_id"] for hit in facts["hits"]] == [hit["image_id"] for hit in answer["hits"]]
    assert [hit["path"] for hit in facts["hits"]] == [hit["path"] for hit in answer["hits"]]
    for hit in facts["hits"]:
        assert sum(part["part"] for part in hit["parts"]) == pytest.approx(hit["score"], abs=1e-5)

    assert short in cli.good("explain", "--list", "--limit", "1")
    assert cli.good("explain", "--limit", "2") == told  # the newest by default
    assert max(map(len, told.splitlines())) <= 80
    assert cli.good("replay", short).splitlines()[1].startswith("identical: ")
    assert cli.data("replay", answer["query_id"])["identical"]


def test_the_gate_says_its_word_once(cli: Terminal) -> None:
    done = cli("search", ROCKET, "--gate", "--limit", "1", "--local", "--explain")
    (said,) = [line for line in done.out.splitlines() if line.startswith("gate: ")]
    assert said.startswith(("gate: simple: ", "gate: complex: "))
    assert said.count("simple: ") + said.count("complex: ") == 1
    assert said in cli.good("explain")


def test_lists_behind_hits_take_a_line_each(cli: Terminal) -> None:
    told = cli.good("search", ROCKET, "--explain", "--limit", "1", "--no-gate", "--local")
    (line,) = [line for line in told.splitlines() if "bridge by text" in line]
    assert "weight" in line


def test_a_search_by_picture_is_explained_and_asks_for_no_feedback(cli: Terminal) -> None:
    told = cli.good("similar", cli.pictures / "coffee.jpg", "--limit", "1", "--local")
    assert "lodestone explain" in told
    assert "feedback" not in told
    assert cli.good("explain").startswith("like an indexed picture")
    assert_one_error(cli("feedback", "-r", "1"), 2, "invalid_request", "by picture")


def test_a_picture_that_was_not_shown_is_judged_by_its_path_and_not_by_a_number(cli: Terminal) -> None:
    everything = cli.asked("a striped cat")
    answer = cli.data("search", "a striped cat", "--limit", "2", "--no-gate", "--local", "--deadline", "60000")
    third = next(hit for hit in everything["hits"] if hit["image_id"] not in {one["image_id"] for one in answer["hits"]})
    before = cli.data("trust", "show")
    assert_one_error(
        cli("feedback", "-i", "3"), 2, "invalid_request", "the answer showed 2 pictures, 1 to 2", "the path or the id"
    )
    assert_one_error(cli("refine", "--like", "3"), 2, "invalid_request", "no picture 3 was shown")
    assert cli.data("trust", "show") == before
    assert "learnt from 1 picture" in cli.good("feedback", "-i", third["path"])
    cli.good("trust", "reset")


def test_a_plain_answer_is_calm_and_its_json_says_everything(cli: Terminal) -> None:
    told = cli.good("search", ROCKET, "--limit", "1", "--no-gate", "--local").splitlines()
    assert re.fullmatch(r"1 picture in \d+\.\d s", told[-2])
    assert told[-1].startswith("why: lodestone explain ")
    assert not [line for line in told if re.search(r"spaces:|mean_distance|trust of|guides by|gate:", line)]
    facts = cli.asked(ROCKET)
    assert facts["space_weights"] and facts["fusion"] and facts["timings_ms"]["total"]


def test_asking_again_names_what_moved(cli: Terminal) -> None:
    before = cli.asked("a picture of dots")
    last = before["hits"][-1]
    cli.good("tags", "add", "a picture of dots", last["path"])
    by_file, by_id = (cli.data("tags", "suggest", given) for given in (last["path"], last["image_id"]))
    assert by_file == by_id
    assert by_file["quality"]["sharpness"] > 0
    told = cli.good("replay", before["query_id"][:8], "--fresh", "--local")
    assert "not identical: " in told
    assert last["path"] in told.replace("\n", "")
    assert cli.good("replay", before["query_id"][:8]).splitlines()[1].startswith("identical: ")  # its record is what it was
    cli.good("tags", "undo", "--since", "1h")


def test_feedback_by_rank_file_and_id_is_learnt_once_and_taken_back(cli: Terminal, tmp_path: Path) -> None:
    answer = cli.asked("a smiling person")
    short = answer["query_id"][:8]
    second = answer["hits"][1]
    fourth = answer["hits"][3]
    told = cli.good("feedback", short, "--relevant", "4", "-r", second["path"], "-i", answer["hits"][0]["image_id"][:8])
    assert "learnt from 3 pictures of 'a smiling person'" in told
    event = told.split("lodestone trust undo ")[1].strip()
    again = cli.data("feedback", short, "-r", "2", "-r", "4", "-i", "1")
    assert not again["applied"]
    assert "given before" in cli.good("feedback", short, "-r", "2", "-r", "4", "-i", "1")

    (topic,) = cli.data("trust", "show")["topics"]
    assert topic["words"] == ["a smiling person"]
    assert any(weight != 1 for weight in topic["weights"].values())
    assert "feedback on 'a" in cli.good("trust", "events")
    tags = cli.data("tags", "list", "--text", "a smiling person", "--source", "feedback")["tags"]
    assert {tag["path"] for tag in tags} == {second["path"], fourth["path"]}

    saved = tmp_path / "trust.json"
    assert cli.good("trust", "export", saved) == ""
    exported = json.loads(saved.read_text())
    assert len(saved.read_text().splitlines()) < 10  # hundreds of coordinates, not a line each
    assert "neutral again: 1 topic" in cli.good("trust", "reset")
    assert cli.data("trust", "show")["topics"] == []
    assert "took over 1 topic" in cli.good("trust", "import", saved)
    assert json.loads(cli.good("trust", "export")) == exported
    assert cli.data("trust", "show")["topics"] == [topic]

    taken_over, reset, learnt = cli.data("trust", "events", "--limit", "3")
    assert (taken_over["kind"], reset["kind"], learnt["event_id"][:8]) == ("import", "reset", event)
    for undone in (taken_over, reset):
        cli.good("trust", "undo", undone["event_id"][:8])
    assert cli.data("trust", "show")["topics"] == [topic]
    assert "undone: feedback on 'a smiling person'" in cli.good("trust", "undo", event)
    assert cli.data("trust", "show")["topics"] == []
    marked = {one["event_id"]: one["undone"] for one in cli.data("trust", "events")}
    assert marked[learnt["event_id"]]
    assert "(undone)" in cli.good("trust", "events")
    cli.good("tags", "undo", "--since", "1h")


def test_feedback_is_taken_back_as_it_was_given_with_its_trust_and_its_tags(cli: Terminal) -> None:
    answer = cli.asked("a person outdoors")
    short = answer["query_id"][:8]
    judged = ("feedback", short, "-r", "2", "-r", "3", "-i", "1")
    assert cli.data(*judged)["applied"]
    assert len(cli.data("tags", "list", "--text", "a person outdoors", "--source", "feedback")["tags"]) == 2
    assert "nothing changed: this feedback does not count" in cli.good("feedback", short, "-r", "2", "--withdraw")
    told = cli.good(*judged, "--withdraw")
    assert "took back the feedback on 'a person outdoors'" in told
    assert "trust in" in told
    assert cli.data("tags", "list", "--text", "a person outdoors", "--source", "feedback")["tags"] == []
    assert cli.data("trust", "show")["topics"] == []
    assert not cli.data(*judged, "--withdraw")["applied"]
    assert cli.data(*judged)["applied"]  # what was taken back may be said again
    assert cli.data(*judged, "--withdraw")["applied"]


# -- tags ----------------------------------------------------------------------------------------------------------------------


def test_tags_by_hand_are_found_listed_and_taken_away(cli: Terminal) -> None:
    coffee, cat = cli.pictures / "coffee.jpg", cli.pictures / "chelsea.jpg"
    assert "tagged 2 pictures 'zanzibar holiday'" in cli.good("tags", "add", "Zanzibar  holiday".lower(), coffee, cat)
    assert "1 picture had the tag" in cli.good("tags", "add", "zanzibar holiday", coffee)
    assert tagged_hits(cli.data("search", "zanzibar holiday", "--guides", "0", "--explain", "--local")) == {
        str(coffee),
        str(cat),
    }
    told = cli.good("tags", "list", "--image", coffee)
    assert "zanzibar holiday" in told
    assert "coffee.jpg" in told
    (tag,) = cli.data("tags", "list", "--image", coffee, "--source", "user")["tags"]
    assert cli.good("tags", "remove", tag["tag_id"][:8]) == "removed 1 tag\n"
    assert cli.data("tags", "undo", "--since", "1h", "--source", "user")["removed"] == 1
    assert "removed 0 tags" in cli.good("tags", "undo", "--since", "99999999999999999999d", "--source", "user")


# -- engines -------------------------------------------------------------------------------------------------------------------


def test_engines_are_listed_tried_ordered_and_switched(cli: Terminal, engine: ImageServer) -> None:
    told = cli.good("generator", "list")
    assert [line.split()[:3] for line in told.splitlines()[1:3]] == [
        ["exemplar", "exemplar", "first"],
        ["studio", "openai", "by"],  # name: no query asks it unless it says so
    ]
    assert "256 x 256 pixels, cost 0.5" in cli.good("generator", "test", "studio", "two dogs")
    assert engine.drawn[-1].body["prompt"] == "two dogs"
    assert "works: a guide" in cli.good("generator", "test", "exemplar")  # with a caption of the collection
    assert "has no guide" in cli.good("generator", "test", "exemplar", "purple elephants")
    assert cli.good("generator", "order", "studio") == "asked: studio, then exemplar\n"
    assert cli.data("generator", "describe", "exemplar")["priority"] == 1
    assert cli.good("generator", "order", "studio", "exemplar", "--together") == "asked: exemplar and studio together\n"

    answer = cli.asked(ROCKET, "--generator", "studio", "--generator", "exemplar", "--guides", "2")
    assert {guide["engine"] for guide in answer["guides"]} == {"studio", "exemplar"}
    assert "words alone" in cli.good("generator", "disable", "exemplar")
    assert not cli.data("generator", "describe", "exemplar")["enabled"]
    assert "disabled" in cli.good("generator", "list")
    assert cli.asked(ROCKET)["guides"] == []
    cli.good("generator", "enable", "exemplar")
    assert cli.asked(ROCKET)["guides"] != []


def test_drawn_guides_are_saved_as_pictures(cli: Terminal, tmp_path: Path) -> None:
    cli.asked("a blue ball", "-g", "studio", "--guides", "2")
    cli.good("explain", "--guides", tmp_path)
    assert [path.read_bytes()[:2] for path in sorted(tmp_path.iterdir())] == [b"\xff\xd8"] * 2


def test_an_engine_that_fails_is_one_error(cli: Terminal, engine: ImageServer) -> None:
    engine.mode = "error"
    try:
        assert_one_error(cli("generator", "test", "studio"), 9, "model_unavailable", "studio", "500")
    finally:
        engine.mode = "good"


# -- bad input -----------------------------------------------------------------------------------------------------------------

NOBODY = "11111111-2222-5333-8444-555555555555"
WRONG = [
    (("explain", "zzz"), 3, "not_found"),
    (("explain", ""), 3, "not_found"),
    (("explain", NOBODY), 3, "not_found"),
    (("replay", "zzz"), 3, "not_found"),
    (("feedback", "zzz", "-r", "1"), 3, "not_found"),
    (("feedback",), 2, "invalid_request"),
    (("feedback", "-r", "0"), 2, "invalid_request"),
    (("feedback", "-r", "99"), 2, "invalid_request"),
    (("feedback", "-r", "nothing"), 3, "not_found"),
    (("feedback", "-r", "1", "-i", "1"), 2, "invalid_request"),
    (("feedback", "-r", "1", "--eta", "0"), 2, "invalid_request"),
    (("feedback", "-r", "1", "--eta", "nan"), 2, "invalid_request"),
    (("trust", "undo", "zzz"), 3, "not_found"),
    (("trust", "import", "/no/such/file"), 3, "not_found"),
    (("trust", "export", "/no/such/folder/file"), 2, "invalid_request"),
    (("tags", "undo", "--since", "nonsense"), 2, "invalid_request"),
    (("tags", "undo", "--since", ""), 2, "invalid_request"),
    (("tags", "undo", "--since", "2999-01-01"), 2, "invalid_request"),
    (("tags", "add", "a tag", "no-such.jpg"), 3, "not_found"),
    (("tags", "add", "...", NOBODY), 3, "not_found"),
    (("tags", "remove", "zzz"), 3, "not_found"),
    (("tags", "list", "--source", "nobody"), 2, "invalid_request"),
    (("tags", "list", "--corpus", "nowhere"), 2, "unknown_name"),
    (("generator", "describe", "nobody"), 2, "unknown_name"),
    (("generator", "test", "nobody"), 2, "unknown_name"),
    (("generator", "disable", "nobody"), 2, "unknown_name"),
    (("generator", "order", "exemplar", "nobody"), 2, "unknown_name"),
    (("search", "a", "--topic", "x" * 201, "--local"), 2, "invalid_request"),
    (("search", "a", "--topic", " ", "--local"), 2, "invalid_request"),
    (("search", "a", "--generator", "nobody", "--local"), 2, "unknown_name"),
]


@pytest.fixture(scope="module")
def asked(cli: Terminal) -> str:
    return str(cli.asked("a cup of coffee")["query_id"])


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"), WRONG, ids=lambda one: " ".join(one) if isinstance(one, tuple) else ""
)
@pytest.mark.usefixtures("asked")
def test_wrong_input_is_one_line_and_a_hint(cli: Terminal, arguments: tuple[str, ...], exit_code: int, code: str) -> None:
    assert_one_error(cli(*arguments), exit_code, code)


def test_an_ambiguous_beginning_lists_what_it_may_mean(cli: Terminal) -> None:
    ids = [f"{number:08x}-0000-0000-0000-000000000000" for number in range(3)]
    from lodestone.errors import InvalidRequestError
    from lodestone_cli.naming import id_among

    with pytest.raises(InvalidRequestError, match="3 ids begin with '000'"):
        id_among("000", ids, what="query", hint="")
    assert id_among("00000001", ids, what="query", hint="") == ids[1]


@pytest.mark.parametrize("content", ["", "nonsense", '{"format": 7, "topics": []}', "[" * 100_000, "[]", '{"format": NaN}'])
def test_trust_is_imported_whole_or_not_at_all(cli: Terminal, tmp_path: Path, content: str) -> None:
    file = tmp_path / "trust.json"
    file.write_text(content)
    before = cli.data("trust", "show")
    assert_one_error(cli("trust", "import", file), 2, "invalid_request")
    assert cli.data("trust", "show") == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain",), ("explain", "--list"), ("replay",), ("feedback", "-r", "1"), ("trust", "show"), ("trust", "events"),
        ("trust", "export"), ("trust", "reset"), ("trust", "undo", "x"), ("tags", "list"), ("tags", "undo", "--since", "1d"),
        ("tags", "add", "x", "y"), ("generator", "test", "exemplar"), ("train", "complexity"),
        ("train", "bridge", "--corpus", "x"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_home_that_is_not_there_is_said_and_not_made(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    home = tmp_path / "nowhere"
    assert_one_error(run_here(*arguments, home=home, **SETTINGS), 3, "not_found", str(home))
    assert not home.exists()


@pytest.mark.parametrize("arguments", [("generator", "list"), ("generator", "describe", "exemplar")], ids=" ".join)
def test_engines_can_be_looked_at_before_there_is_a_home(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    home = tmp_path / "nowhere"
    done = run_here(*arguments, home=home, **SETTINGS)
    assert done.code == 0, done.err
    assert "exemplar" in done.out
    assert not home.exists()


# -- beside a service ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_same_commands_beside_a_running_service(cli: Terminal) -> None:
    coffee = cli.pictures / "coffee.jpg"
    with served_here(home_settings(cli.home)):
        answer = cli.data("search", ROCKET, "--limit", "3", "--no-gate")
        assert answer["guides"]
        short = answer["query_id"][:8]
        assert str(cli.pictures / "rocket.jpg") in cli.good("explain", short).replace("\n", "")
        assert cli.data("feedback", short, "-r", "1", "-i", "3")["applied"]
        assert not cli.data("feedback", short, "-r", "1", "-i", "3")["applied"]
        assert cli.data("replay", short, "--fresh")["fresh"]

        cli.good("tags", "add", "marmalade", coffee)
        assert tagged_hits(cli.data("search", "marmalade", "--guides", "0", "--explain")) == {str(coffee)}
        assert cli.data("tags", "undo", "--since", "10m", "--source", "user")["removed"] == 1
        assert tagged_hits(cli.data("search", "marmalade", "--guides", "0", "--explain")) == set()

        cli.good("generator", "disable", "exemplar")
        listed = {one["name"]: one["enabled"] for one in cli.data("generator", "list")["engines"]}
        assert listed == {"exemplar": False, "studio": True}  # at once
        assert "breaker" in cli.good("generator", "list")
        time.sleep(1.2)  # queries follow within a second
        assert cli.data("search", ROCKET, "--no-gate")["guides"] == []
        cli.good("generator", "enable", "exemplar")
        assert_one_error(cli("generator", "test", "exemplar"), 6, "store_locked", "search")
        assert "works" in cli.good("generator", "test", "studio")
