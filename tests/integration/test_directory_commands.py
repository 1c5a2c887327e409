"""The command line adds, switches, watches, describes and removes directories, and shows what does not fit."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from tests.support.cli import Finished, command, environment, run_here
from tests.support.home_copies import copy_folder
from tests.support.homes import wait_until
from tests.support.pictures import write_photo, write_photos

SETTINGS = {"LODESTONE_MODELS__THREADS": "1", "LODESTONE_INDEX__EXECUTOR": "inline"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one directory of four pictures."""
    folder = tmp_path_factory.mktemp("commands")
    write_photos(folder / "pictures", 4)
    added = run(folder, "directory", "add", folder / "pictures", "--corpus", "family", "-o", "json")
    assert added.code == 0, added.err
    assert (added.json["images"], added.json["enabled"], added.json["counts"]["new"]) == (4, True, 4)
    return folder


def run(place: Path, *arguments: str | Path) -> Finished:
    return run_here(*arguments, home=place / "home", **SETTINGS)


def hits(place: Path) -> int:
    done = run(place, "search", "coloured dots", "--local", "-o", "json")
    assert done.code == 0, done.err
    return len(done.json["hits"])


def test_a_directory_is_switched_off_and_on(place: Path) -> None:
    assert hits(place) == 4
    off = run(place, "directory", "disable", "pictures")
    assert "family/pictures  (disabled)" in off.out
    assert hits(place) == 0
    listed = run(place, "directory", "list")
    assert "disabled" in listed.out and str(place / "pictures") in listed.out.replace("\n", "")
    assert run(place, "directory", "enable", place / "pictures", "-o", "json").json["enabled"] is True
    assert hits(place) == 4


def test_patterns_of_a_directory_are_shown_added_and_removed(place: Path) -> None:
    assert "no pattern leaves anything out" in run(place, "directory", "exclude", "pictures").out
    set_ = run(place, "directory", "exclude", "pictures", "raw/", "*.png", "-o", "json")
    assert set_.json == {"directory": "pictures", "corpus": "family", "exclude": ["raw/", "*.png"]}
    again = run(place, "directory", "exclude", "pictures", "*.png", "b/", "-o", "json")
    assert again.json["exclude"] == ["raw/", "*.png", "b/"]
    assert run(place, "directory", "exclude", "pictures", "*.png", "--remove", "-o", "json").json["exclude"] == ["raw/", "b/"]
    wrong = run(place, "directory", "exclude", "pictures", "!")
    assert wrong.code != 0 and "gitignore" in wrong.err
    shown = run(place, "directory", "exclude", "pictures").out
    assert "raw/" in shown and "b/" in shown
    assert run(place, "directory", "exclude", "pictures", "--remove", "-o", "json").json["exclude"] == []


def test_a_folder_inside_a_directory_is_switched_off_and_removed_for_good(tmp_path: Path) -> None:
    write_photos(tmp_path / "pictures", 2)
    write_photo(tmp_path / "pictures" / "2018" / "a.jpg", seed=90)
    assert run(tmp_path, "index", tmp_path / "pictures").code == 0
    assert hits(tmp_path) == 3
    asked = run(tmp_path, "directory", "remove", "pictures/2018")
    assert asked.code == 2 and "Forget the pictures in '2018' of 'pictures'?" in asked.err
    assert len(run(tmp_path, "directory", "list", "-o", "json").json) == 1, "a question that nobody answers changes nothing"
    off = run(tmp_path, "directory", "disable", tmp_path / "pictures" / "2018", "-o", "json")
    assert (off.code, off.json["name"], off.json["enabled"], off.json["images"]) == (0, "2018", False, 1), off.err
    assert hits(tmp_path) == 2
    assert run(tmp_path, "directory", "enable", "2018").code == 0
    assert hits(tmp_path) == 3
    removed = run(tmp_path, "directory", "remove", "2018", "--yes")
    assert removed.code == 0, removed.err
    assert "lodestone directory exclude pictures --remove /2018/" in " ".join(removed.out.split())
    again = run(tmp_path, "index", tmp_path / "pictures", "-o", "json")
    assert (again.json["images"], again.json["left_out"]) == (2, {"matches of patterns": 1})
    write_photo(tmp_path / "pictures" / "2019" / "b.jpg", seed=91)
    assert run(tmp_path, "index", tmp_path / "pictures", "--exclude", "2018/").code == 0
    assert run(tmp_path, "directory", "remove", "pictures/2019", "--yes").code == 0
    assert hits(tmp_path) == 2
    unknown = run(tmp_path, "directory", "disable", "pictures/2017")
    assert unknown.code != 0 and "no pictures in '2017'" in unknown.err


def test_a_picture_is_named_by_its_file_name_where_only_one_has_it(tmp_path: Path) -> None:
    write_photos(tmp_path / "pictures", 3)
    write_photo(tmp_path / "pictures" / "a" / "IMG_7.jpg", seed=90)
    write_photo(tmp_path / "pictures" / "b" / "IMG_7.jpg", seed=91)
    assert run(tmp_path, "index", tmp_path / "pictures").code == 0
    alike = run(tmp_path, "similar", "000001.jpg", "-o", "json")
    assert alike.code == 0, alike.err
    assert len(alike.json["hits"]) == 4  # it is not among its own results
    assert run(tmp_path, "similar", "b/IMG_7.jpg", "-o", "json").code == 0
    several = run(tmp_path, "similar", "IMG_7.jpg")
    assert several.code != 0
    assert all(str(tmp_path / "pictures" / name / "IMG_7.jpg") in several.err.replace("\n", "") for name in "ab")
    none = run(tmp_path, "similar", "IMG_8.jpg")
    assert none.code != 0 and "no file 'IMG_8.jpg'" in none.err
    found = run(tmp_path, "search", "dots", "--path", "a", "-o", "json")
    assert [hit["uri"] for hit in found.json["hits"]] == ["a/IMG_7.jpg"]


def test_a_directory_is_described_with_its_runs(place: Path) -> None:
    described = run(place, "directory", "describe", "family/pictures", "-o", "json").json
    assert (described["path"], described["images"], described["waiting"]) == (str(place / "pictures"), 4, 0)
    assert described["runs"][0]["state"] == "done"
    assert described["scanned_at"]
    assert "4 pictures, 0 waiting, 0 failed" in run(place, "directory", "describe", "pictures").out


def test_an_empty_folder_can_be_added_and_removed(place: Path) -> None:
    (place / "later").mkdir()
    added = run(place, "directory", "add", place / "later", "--watch")
    assert (added.code, "watched" in added.out) == (0, True), added.err
    assert "there are no pictures" in added.err
    assert run(place, "directory", "watch", "later", "--off", "-o", "json").json["watched"] is False
    removed = run(place, "directory", "remove", "later", "--yes", "-o", "json")
    assert removed.json["removed"] == "later"
    assert [one["name"] for one in run(place, "directory", "list", "-o", "json").json] == ["pictures"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("describe", "nowhere"), 2, "known: family/pictures"),
        (("add", "{place}/nowhere"), 3, "no such folder"),
        (("add", "{place}"), 2, "holds the home"),
        (("disable", ""), 2, "unknown directory"),
    ],
)
def test_wrong_directories_are_refused_with_the_next_step(
    place: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = run(place, "directory", *(text.replace("{place}", str(place)) for text in arguments))
    assert (done.code, said in done.err) == (code, True), done.err


def test_a_home_without_directories_says_what_to_type(tmp_path: Path) -> None:
    assert "lodestone directory add" in run(tmp_path, "directory", "list").out
    assert run(tmp_path, "directory", "jobs").out.strip() == "no service is running"
    assert not (tmp_path / "home").exists()


def test_doctor_shows_what_does_not_fit_and_an_index_run_repairs_it(place: Path, tmp_path: Path) -> None:
    copy_folder(place, tmp_path)

    def findings() -> list[str]:
        checks = run(tmp_path, "doctor", "-o", "json").json
        return [one["finding"] for one in checks if one["name"] == "consistency"]

    assert findings() == ["all fits"]
    shutil.rmtree(tmp_path / "home" / "store")
    (lost, *more) = findings()
    assert "is not there: 4 pictures to load" in lost
    assert more
    assert run(tmp_path, "index", place / "pictures", "--corpus", "family").code == 0
    assert findings() == ["all fits"]
    assert hits(tmp_path) == 4


@pytest.mark.nightly
@pytest.mark.slow
def test_watching_without_a_service_follows_files_until_it_is_stopped(tmp_path: Path) -> None:
    write_photos(tmp_path / "pictures", 2)
    process = subprocess.Popen(
        command("watch", tmp_path / "pictures"),
        env=environment(tmp_path / "home", **SETTINGS, PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def images() -> int:
        listed = run(tmp_path, "directory", "list", "-o", "json")
        return sum(one["images"] for one in listed.json) if listed.code == 0 else -1

    try:
        wait_until(lambda: images() == 2, seconds=200, every=0.5)
        write_photo(tmp_path / "pictures" / "more" / "new.jpg", seed=99)
        wait_until(lambda: images() == 3, seconds=200, every=0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert f"watching {tmp_path / 'pictures'}" in out
    assert "1 new" in err or "2 new" in err
    assert not (tmp_path / "home" / "service.json").exists()
    assert hits(tmp_path) == 3


def test_watch_says_which_folder_is_not_there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_photos(place / "disk", 1)
    assert run(place, "directory", "add", place / "disk", "--watch", "--no-index").code == 0
    shutil.rmtree(place / "disk")
    monkeypatch.setattr("lodestone_cli.commands.watch._watch", lambda context: None)
    assert f"{place / 'disk'} is not there: its pictures are kept" in run(place, "watch").out.replace("\n", " ")
    assert run(place, "directory", "remove", place / "disk", "--yes").code == 0
