"""A home without a usable `home.json` is refused. It gets its id again, and never another one without a word."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.cli import run_here
from tests.support.home import open_runtime
from tests.support.home_copies import copy_folder
from tests.support.pictures import write_photos

from lodestone.backup.create import create_backup
from lodestone.backup.home_marker import mark_home_again
from lodestone.config.home import HOME_FORMAT, Home
from lodestone.config.settings import load_settings
from lodestone.errors import ConfigurationError, HomeVersionError, NotFoundError
from lodestone.files.opening import open_area
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a home, and a backup of it."""
    folder = tmp_path_factory.mktemp("original")
    write_photos(folder / "photos", 4)
    with open_runtime(folder) as runtime:
        index_paths(runtime, IndexRequest((folder / "photos",)))
        create_backup(runtime, open_area(folder / "backup"))
    return folder


@pytest.fixture
def home(original: Path, tmp_path: Path) -> Home:
    """A copy of the home."""
    return Home(copy_folder(original / "home", tmp_path / "home"))


def _altered(home: Home) -> None:
    """Alter one digit of the id, which is another id then."""
    first = home.id[0]
    home.marker.write_text(home.marker.read_text().replace(f'"{home.id}"', f'"{"b" if first != "b" else "a"}{home.id[1:]}"'))


DAMAGES: dict[str, Callable[[Home], object]] = {
    "lost": lambda home: home.marker.unlink(),
    "empty": lambda home: home.marker.write_bytes(b""),
    "garbled": lambda home: home.marker.write_bytes(b"\x80\x81 no JSON"),
    "no format": lambda home: home.marker.write_text(json.dumps({"id": home.id})),
    "bad id": lambda home: home.marker.write_text(json.dumps({"format": 1, "id": "../up"})),
    "another id": _altered,
}


@pytest.mark.nightly_beyond(2)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_home_without_its_marker_is_refused_and_repaired_from_its_catalog(home: Home, damage: str) -> None:
    home_id = home.id
    DAMAGES[damage](home)
    before = home.marker.read_bytes() if home.marker.exists() else None
    for words in (["search", "a dog"], ["status"], ["index", str(home.path.parent)], ["corpus", "list"]):
        told = run_here(*words, "--output", "json", home=home.path)
        assert told.code == 4, (words, told.out, told.err)
        assert "lodestone catalog repair-home" in json.loads(told.err)["error"]["hint"]
    assert (home.marker.read_bytes() if home.marker.exists() else None) == before
    assert "repair-home" in run_here("doctor", home=home.path).out

    told = run_here("catalog", "repair-home", "--output", "json", home=home.path)
    assert told.code == 0, told.err
    assert (told.json["home_id"], told.json["source"]) == (home_id, "catalog")
    assert home.id == home_id
    assert (Path(told.json["kept"]).read_bytes() if told.json["kept"] else None) == before
    told = run_here("search", "a dog", "--output", "json", home=home.path)
    assert (told.code, len(told.json["hits"])) == (0, 4)


def test_without_a_catalog_the_id_comes_from_a_backup(home: Home, original: Path) -> None:
    home_id = home.id
    home.marker.unlink()
    home.catalog.unlink()
    assert home.exists()  # its embeddings tell
    told = run_here("catalog", "repair-home", str(original / "backup"), "--output", "json", home=home.path)
    assert (told.json["home_id"], told.json["source"]) == (home_id, "backup"), told.err
    assert run_here("catalog", "rebuild", home=home.path).code == 0
    with open_runtime(home.path.parent) as runtime:
        assert runtime.catalog.known_home_id() == home_id


def test_a_new_id_is_made_only_where_nothing_outside_is_named_by_the_old_one(home: Home) -> None:
    home_id = home.id
    home.marker.unlink()
    home.catalog.unlink()
    settings = load_settings({"home": home.path}).settings
    on_server = settings.model_copy(update={"store": settings.store.model_copy(update={"kind": "server"})})
    with pytest.raises(ConfigurationError, match="is not known") as caught:
        mark_home_again(on_server)
    assert "up to the dot" in caught.value.hint
    assert not home.marker.exists()
    report = mark_home_again(settings)
    assert (report.source, report.kept) == ("new", None)
    assert home.id == report.home_id != home_id


def test_a_copy_gets_an_id_of_its_own_where_it_is_asked_for(home: Home) -> None:
    home_id = home.id
    told = run_here("catalog", "repair-home", "--new-id", home=home.path)
    assert told.code == 0, told.err
    assert home.id != home_id
    with open_runtime(home.path.parent) as runtime:
        assert runtime.catalog.known_home_id() == home.id
        assert runtime.catalog.count_images() == 4


def test_an_id_that_was_taken_out_of_the_file_comes_back_from_the_catalog(home: Home) -> None:
    home_id = home.id
    home.marker.write_text(json.dumps({"format": 1}))
    with open_runtime(home.path.parent) as runtime:
        assert runtime.catalog.count_images() == 4
    assert home.id == home_id


def test_a_catalog_of_an_earlier_version_takes_the_id_and_gives_none_away(home: Home) -> None:
    with open_runtime(home.path.parent) as runtime:
        runtime.catalog._write(lambda connection: connection.exec_driver_sql("DELETE FROM home_facts"))
        assert runtime.catalog.known_home_id() is None
    with open_runtime(home.path.parent) as runtime:
        assert runtime.catalog.known_home_id() == home.id
        runtime.catalog._write(lambda connection: connection.exec_driver_sql("DELETE FROM home_facts"))
    home.marker.write_text(json.dumps({"format": 1}))
    with open_runtime(home.path.parent) as runtime, pytest.raises(ConfigurationError, match="neither") as caught:
        _ = runtime.catalog
    assert "repair-home BACKUP" in caught.value.hint
    assert json.loads(home.marker.read_text()) == {"format": 1}


def test_no_home_and_one_of_a_newer_version_are_left_alone(home: Home, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no home"):
        mark_home_again(load_settings({"home": tmp_path / "nowhere"}).settings)
    assert not (tmp_path / "nowhere").exists()
    home.marker.write_text(json.dumps({"format": HOME_FORMAT + 1, "id": home.id}))
    with pytest.raises(HomeVersionError):
        mark_home_again(load_settings({"home": home.path}).settings)
    assert json.loads(home.marker.read_text())["format"] == HOME_FORMAT + 1
