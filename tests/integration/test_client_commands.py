"""Commands work by a service elsewhere, given nothing but its address: no home, no models, no files of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import Finished, run_here
from tests.support.home import settings_for
from tests.support.homes import index
from tests.support.pictures import write_photos
from tests.support.served import TOKEN, Served, served_here

from lodestone_client import Lodestone


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service of eight pictures."""
    folder = tmp_path_factory.mktemp("elsewhere")
    write_photos(folder / "pictures", 8)
    settings = settings_for(folder / "home")
    index(settings, folder / "pictures", corpus="family")
    with served_here(settings) as served:
        yield served


@pytest.fixture
def run(remote: Served, tmp_path: Path) -> Iterator[object]:
    """Runs commands on a machine that has no home; none may be made."""

    def command(*arguments: str | Path, url: str | None = None) -> Finished:
        return run_here("--url", url or remote.address.url, *arguments, home=tmp_path / "none")

    yield command
    assert not (tmp_path / "none").exists()


def test_a_search_is_explained_replayed_and_judged(run) -> None:
    found = run("search", "coloured dots", "--limit", "3", "-o", "json")
    assert found.code == 0, found.err
    assert len(found.json["hits"]) == 3
    query_id, first = found.json["query_id"], found.json["hits"][0]["image_id"]
    explained = run("explain", query_id[:12], "-o", "json").json
    assert (explained["query_id"], explained["hits"][0]["image_id"]) == (query_id, first)
    assert run("explain", "--list", "-o", "json").json["queries"][0]["text"] == "coloured dots"
    assert "identical" in run("replay", query_id).out
    judged = run("feedback", query_id, "--relevant", "1", "--irrelevant", "3", "-o", "json")
    assert judged.code == 0, judged.err
    assert judged.json["applied"]
    again = run("feedback", query_id, "-r", first, "-i", found.json["hits"][2]["image_id"])
    assert "given before" in again.out
    assert run("trust", "show", "-o", "json").json["topics"]
    back = run("feedback", query_id, "-r", "1", "-i", "3", "--withdraw", "-o", "json")
    assert back.json["applied"]
    assert run("trust", "show", "-o", "json").json["topics"] == []
    assert "nothing changed" in run("feedback", query_id, "-r", "1", "-i", "3", "--withdraw").out


def test_results_are_shown_by_their_place_in_the_service(run) -> None:
    shown = run("search", "coloured dots", "--limit", "2")
    assert "pictures/" in shown.out, shown.err
    assert "lodestone explain" in shown.out


def test_pictures_are_searched_by(run, tmp_path: Path) -> None:
    write_photos(tmp_path / "mine", 1)
    file = next((tmp_path / "mine").iterdir())
    found = run("similar", file, "--limit", "1", "-o", "json")
    assert found.code == 0, found.err
    image_id = found.json["hits"][0]["image_id"]
    assert run("similar", image_id, "-o", "json").json["hits"]


def test_tags_are_put_listed_and_taken_away(run) -> None:
    image_id = run("search", "coloured dots", "-o", "json").json["hits"][0]["image_id"]
    assert "tagged 1 picture" in run("tags", "add", "our old house", image_id).out
    (tag,) = run("tags", "list", "--text", "our old house", "-o", "json").json["tags"]
    assert tag["image_id"] == image_id
    assert run("tags", "remove", tag["tag_id"][:10], "-o", "json").json == {"removed": 1}
    assert run("tags", "list", "--text", "our old house", "-o", "json").json["tags"] == []
    refused = run("tags", "add", "x", "some/file.jpg")
    assert (refused.code, "is no image id" in refused.err) == (3, True)


def test_what_is_there_is_listed(run, remote: Served) -> None:
    assert [one["name"] for one in run("corpus", "list", "-o", "json").json] == ["family"]
    (directory,) = run("directory", "list", "-o", "json").json
    assert (directory["name"], directory["images"]) == ("pictures", 8)
    described = run("directory", "describe", "family/pictures")
    assert "8 pictures, 0 waiting, 0 failed" in described.out, described.err
    assert run("directory", "jobs", "-o", "json").json == []
    unknown = run("directory", "cancel", "zzzz")
    assert (unknown.code, "there is no job 'zzzz'" in unknown.err) == (3, True)
    status = run("status", "-o", "json").json
    assert (status["service"], status["ready"], status["images"]) == (remote.address.url, True, 8)
    assert "family: 8 pictures" in run("status").out
    assert run("generator", "list", "-o", "json").json["engines"]
    assert run("directory", "describe", "nowhere").code == 2
    assert run("explain", "zzzz").code == 3


def test_runs_are_listed_and_shown(run) -> None:
    (row,) = run("runs", "list", "-o", "json").json
    assert (row["kind"], row["corpus"], row["state"]) == ("index", "family", "done")
    assert row["run_id"] in run("runs", "show", row["run_id"][:8]).out
    assert run("runs", "list", "--state", "failed", "-o", "json").json == []
    assert row["run_id"] in run("runs", "show").out
    assert "no run is going on" in run("runs", "cancel").err


def test_what_needs_a_key_says_so(run) -> None:
    for refused in (run("directory", "disable", "pictures"), run("corpus", "remove", "family", "--yes")):
        assert (refused.code, "unauthorized" in refused.err) == (19, True), refused.err


def test_commands_of_a_home_are_refused(run, tmp_path: Path) -> None:
    for arguments in (("index", tmp_path), ("verify",), ("config", "show"), ("search", "a", "--local")):
        refused = run(*arguments)
        assert (refused.code, "not by --url" in refused.err) == (2, True), refused.err


def test_the_environment_names_the_service_too(remote: Served, tmp_path: Path) -> None:
    named = {"LODESTONE_URL": remote.address.url, "LODESTONE_API_KEY": "of-nobody"}
    home = tmp_path / "none"
    assert run_here("corpus", "list", "-o", "json", home=home, **named).json[0]["name"] == "family"
    noted = run_here("config", "show", home=home, **named)
    assert (noted.code, "LODESTONE_URL is not used" in noted.err) == (0, True)
    assert "of-nobody" not in noted.out + noted.err


def test_addresses_that_cannot_be_asked_are_told(run) -> None:
    assert run("status", url="pictures.example").code == 4
    gone = run("corpus", "list", url="http://127.0.0.1:9")
    assert (gone.code, "does not answer" in gone.err) == (8, True)


def test_the_client_of_another_program_sees_the_same(remote: Served) -> None:
    with Lodestone(remote.address.url, headers={"X-Lodestone-Token": TOKEN}) as client:
        (image, *others) = client.iter_images("family")
        assert len(others) == 7
        assert client.thumbnail(image.image_id)[:2] == b"\xff\xd8"
        assert client.content(image.image_id)[:4] in {b"\x89PNG", b"\xff\xd8\xff\xe0", b"\xff\xd8\xff\xdb"}
        answers = {answer.line: answer for answer in client.search_many(["coloured dots", "a boat", ""] * 30)}
        assert sorted(answers) == list(range(1, 91))
        assert all((answers[line].problem is not None) == (line % 3 == 0) for line in answers)
        assert client.models().data
