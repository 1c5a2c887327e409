"""`search --path` understands folders of this machine, and `similar FILE` stays within its bounds."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.cli import Finished, run_here
from tests.support.photos import CAT, COFFEE, ROCKET, photo_path
from tests.support.pictures import write_photo

from lodestone.home.running_service.address import ServiceAddress
from lodestone.home.running_service.client import ServiceClient
from lodestone_cli.command_context import CommandContext

SETTINGS = {"LODESTONE_INDEX__EXECUTOR": "inline", "LODESTONE_MODELS__THREADS": "1"}


def run(*arguments: str | Path, home: Path, **more: str) -> Finished:
    return run_here(*arguments, home=home, **{**SETTINGS, **more})


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two roots side by side, `trips` (with the folder 2024/summer) and `work`, and a folder that is not indexed."""
    around = tmp_path_factory.mktemp("pictures")
    for name, path in ((CAT, "trips/2024/summer/cat.png"), (ROCKET, "trips/rocket.png"), (COFFEE, "work/2024/coffee.png")):
        (around / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(photo_path(name), around / path)
    (around / "elsewhere").mkdir()
    return around


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, roots: Path) -> Path:
    home = tmp_path_factory.mktemp("home")
    done = run("index", roots / "trips", roots / "work", home=home)
    assert done.code == 0, done.err
    return home


def found(home: Path, path: str | Path, **more: str) -> set[str]:
    done = run("search", "a picture", "--path", path, "--output", "json", home=home, **more)
    assert done.code == 0, done.err
    return {f"{hit['root']}/{hit['uri']}" for hit in done.json["hits"]}


TRIPS = {"trips/2024/summer/cat.png", "trips/rocket.png"}


def test_an_absolute_folder_means_its_root_and_the_folder_inside_it(home: Path, roots: Path) -> None:
    assert found(home, roots / "trips" / "2024") == {"trips/2024/summer/cat.png"}
    assert found(home, f"{roots}/trips/2024/../") == TRIPS
    assert found(home, roots) == TRIPS | {"work/2024/coffee.png"}


def test_a_folder_below_the_user_s_own_and_a_link_to_it_mean_the_same(
    home: Path, roots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(home, "~/trips/2024", HOME=str(roots)) == {"trips/2024/summer/cat.png"}
    (tmp_path / "link").symlink_to(roots / "trips" / "2024")
    assert found(home, tmp_path / "link") == {"trips/2024/summer/cat.png"}


def test_a_relative_path_is_a_folder_here_if_it_is_indexed_and_else_one_inside_the_roots(
    home: Path, roots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(roots)
    assert found(home, "trips/2024") == {"trips/2024/summer/cat.png"}
    assert found(home, "2024") == {"trips/2024/summer/cat.png", "work/2024/coffee.png"}
    (tmp_path / "2024").mkdir()
    monkeypatch.chdir(tmp_path)
    assert found(home, "2024") == {"trips/2024/summer/cat.png", "work/2024/coffee.png"}


def test_a_folder_outside_every_root_is_refused_with_their_names(home: Path, roots: Path) -> None:
    for path in (roots / "elsewhere", roots / "trips-2", "/nowhere"):
        done = run("search", "a cat", "--path", path, home=home)
        assert done.code == 2
        assert done.err.startswith("error [invalid_request]")
        assert str(roots / "trips") in done.err
        assert str(roots / "work") in done.err


def test_a_part_of_a_folder_s_name_finds_nothing_and_the_folders_that_may_be_meant_are_named(home: Path) -> None:
    done = run("search", "a picture", "--path", "SUMM", home=home)
    assert (done.code, "no pictures found" in done.out) == (0, True)
    assert "lies in the folder 'SUMM'; --path takes whole folders, such as 2024/summer" in done.err
    unknown = run("search", "a picture", "--path", "100%", home=home)
    assert "note: no picture that fits lies in the folder '100%'\n" in unknown.err


def test_dates_that_no_picture_has_are_told(home: Path) -> None:
    done = run("search", "a picture", "--from", "2019-01-01", home=home)
    assert (done.code, "no pictures found" in done.out) == (0, True)
    assert "note: pictures without a date match no dates\n" in done.err
    assert "note: pictures" not in run("search", "a picture", "--path", "100%", home=home).err


def test_a_root_inside_the_folder_is_named_as_left_out(roots: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert run("index", roots / "trips" / "2024" / "summer", home=home).code == 0
    assert run("index", roots / "trips", home=home).code == 0
    done = run("search", "a picture", "--path", roots / "trips", "--output", "json", home=home)
    assert "--root summer" in done.err
    assert found(home, roots / "trips" / "2024" / "summer") == {"summer/cat.png"}


def test_a_picture_too_large_for_the_service_is_refused_before_it_is_read(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No service has to run: nothing is sent."""
    large = write_photo(tmp_path / "large.jpg")
    with large.open("r+b") as file:
        file.truncate(1 << 40)  # a hole: a terabyte to read, and nothing on disk
    sent: list[bytes] = []
    monkeypatch.setattr(ServiceClient, "by_picture", lambda _, picture, __: sent.append(picture))
    address = ServiceAddress("http://127.0.0.1:9", "token", 1, "0.1.0", datetime.now(UTC))
    monkeypatch.setattr(CommandContext, "_service_address", lambda _: address)
    monkeypatch.setattr(CommandContext, "_client_of", lambda _, __: object.__new__(ServiceClient))
    monkeypatch.setattr(CommandContext, "__exit__", lambda *_: None)
    done = run("similar", large, home=home, LODESTONE_SERVE__MAX_UPLOAD_MB="1")
    assert (done.code, sent) == (2, [])
    assert "1 MB" in done.err


def test_without_a_service_a_large_file_is_read_only_as_far_as_its_picture_goes(home: Path, tmp_path: Path) -> None:
    large = write_photo(tmp_path / "large.jpg")
    with large.open("r+b") as file:
        file.truncate(1 << 40)
    done = run("similar", large, "--limit", "1", "--output", "json", home=home)
    assert done.code == 0, done.err
    assert len(done.json["hits"]) == 1
