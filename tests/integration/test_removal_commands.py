"""The command line forgets pictures, says what remains, and does so beside a running service too."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import Finished, run_here
from tests.support.home_bytes import finds, needles
from tests.support.homes import running_service
from tests.support.pictures import write_photo, write_photos

SETTINGS = {"LODESTONE_MODELS__THREADS": "1", "LODESTONE_INDEX__EXECUTOR": "inline"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a directory of four pictures and three secret ones, and a backup of it."""
    folder = tmp_path_factory.mktemp("forgetting")
    write_photos(folder / "pictures", 4)
    for name in ("one", "two", "three"):
        write_photo(folder / "pictures" / f"quokkaville-{name}.jpg", seed=len(name) + 70)
    assert run(folder, "directory", "add", folder / "pictures", "--corpus", "family", "-o", "json").code == 0
    assert run(folder, "backup", "create", folder / "copies").code == 0
    return folder


def run(place: Path, *arguments: str | Path) -> Finished:
    return run_here(*arguments, home=place / "home", **SETTINGS)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("forget", "{place}/pictures/quokkaville-one.jpg"), 2, "say --yes"),
        (("forget", "{place}/pictures/quokkaville-four.jpg", "--yes"), 3, "is indexed"),
        (("forget", "--yes"), 2, "--gone"),
    ],
)
def test_a_picture_named_by_mistake_is_asked_for_or_refused(
    place: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = run(place, *(one.replace("{place}", str(place)) for one in arguments))
    assert (done.code, said in done.err) == (code, True), done.err
    assert run(place, "directory", "describe", "pictures", "-o", "json").json["images"] == 7


def test_pictures_are_forgotten_here_by_file_and_beside_a_service_and_gone_ones_when_asked(place: Path) -> None:
    forgotten = run(place, "forget", place / "pictures" / "quokkaville-one.jpg", "--yes")
    assert forgotten.code == 0, forgotten.err
    shown = " ".join(forgotten.out.split())
    assert "forgot 1 picture" in shown
    assert "next index run finds them again" in shown
    assert f"{place / 'copies'}".replace(" ", "") in shown.replace(" ", ""), "the backup still holds it"
    assert finds(place / "home", needles(texts=["quokkaville-one"])) == []

    with running_service(place / "home"):
        beside = run(place, "forget", place / "pictures" / "quokkaville-two.jpg", "--yes", "-o", "json")
        assert beside.code == 0, beside.err
        assert len(beside.json["removed"]) == 1
        assert beside.json["remaining"]["notes"] == []
        assert finds(place / "home", needles(texts=["quokkaville-two"], ids=beside.json["removed"])) == []

    for name in ("one", "two", "three"):
        (place / "pictures" / f"quokkaville-{name}.jpg").unlink()
    assert run(place, "index", place / "pictures", "--corpus", "family").code == 0
    kept = run(place, "status", "-o", "json").json["remaining"]
    assert (kept["gone"], len(kept["notes"])) == (1, 1)
    assert "1 picture" in kept["notes"][0] and "--gone" in kept["notes"][0]
    gone = run(place, "forget", "--gone", "--yes", "-o", "json")
    assert (gone.code, gone.json["gone"], gone.json["remaining"]["gone"]) == (0, 1, 0), gone.err
    assert finds(place / "home", needles(texts=["quokkaville"])) == []
    assert run(place, "directory", "describe", "pictures", "-o", "json").json["images"] == 4


def test_a_command_that_was_killed_among_its_pictures_goes_on_with_the_others(place: Path) -> None:
    first, second = place / "pictures" / "000000.jpg", place / "pictures" / "000001.jpg"
    before = run(place, "directory", "describe", "pictures", "-o", "json").json["images"]
    assert run(place, "forget", first, "--yes").code == 0
    again = run(place, "forget", first, second, "--yes", "-o", "json")
    assert (again.code, len(again.json["removed"]), again.json["not_indexed"]) == (0, 1, [str(first)]), again.err
    assert run(place, "directory", "describe", "pictures", "-o", "json").json["images"] == before - 2
    assert run(place, "forget", first, second, "--yes").code == 3
