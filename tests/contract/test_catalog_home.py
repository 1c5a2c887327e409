"""Folders on several machines that share a catalog on a server share the home's id, and a mix-up is refused."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.support.catalogs import make_root, picture
from tests.support.cli import run_here

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import Failure
from lodestone.config.home import Home, home_of
from lodestone.config.settings import Settings
from lodestone.errors import ConfigurationError
from lodestone.home.resources import HomeResources


def add_picture(catalog: Catalog) -> None:
    """A directory with a picture that could not be used."""
    corpus, root = make_root(catalog)
    catalog.add_images([picture(root, "a.jpg")])
    run = catalog.start_run("index", corpus.corpus_id)
    catalog.add_failures([Failure(run.run_id, root.root_id, "b.jpg", "image_damaged", "it is cut off")])


def id_of(folder: Path, url: str | None) -> str:
    """The id with which a home in that folder names its collections."""
    opened = HomeResources(Settings(home=folder, catalog_url=url), Home(folder), purpose="a test")
    try:
        opened.catalog.ping()
        return opened.home.id
    finally:
        opened.close()


def test_the_first_id_stays(catalog: Catalog) -> None:
    assert catalog.home_id(otherwise="one") == "one"
    assert catalog.home_id(otherwise="two") == "one"
    catalog.set_home_id("three")
    assert catalog.home_id(otherwise="two") == "three"
    assert catalog.home_id(otherwise="two", only_if_new=True) == "three"
    assert not any(catalog.count_rows().values())


def test_a_made_up_id_is_taken_by_a_catalog_without_pictures_alone(catalog: Catalog) -> None:
    catalog.ensure_corpus("full")
    assert catalog.home_id(otherwise="made up", only_if_new=True) is None
    assert catalog.home_id(otherwise="known") == "known"
    assert catalog.home_id(otherwise="made up", only_if_new=True) == "known"


def test_a_catalog_in_a_file_leaves_each_home_its_own_id(tmp_path: Path) -> None:
    assert id_of(tmp_path / "one", None) == id_of(tmp_path / "one", None) != id_of(tmp_path / "two", None)


@pytest.mark.server
def test_a_new_folder_takes_the_id_of_the_catalog_on_the_server(tmp_path: Path, postgres_url: str) -> None:
    first = id_of(tmp_path / "one", postgres_url)
    assert id_of(tmp_path / "two", postgres_url) == id_of(tmp_path / "one", postgres_url) == first


@pytest.mark.server
def test_the_catalog_takes_the_id_of_the_folder_that_it_was_used_with(tmp_path: Path, postgres_url: str) -> None:
    Home(tmp_path).prepare()
    Home(tmp_path).settle("lodestoneofold")
    assert id_of(tmp_path, postgres_url) == "lodestoneofold" == id_of(tmp_path / "elsewhere", postgres_url)


@pytest.fixture
def upgraded(postgres_url: str) -> str:
    """The URL of a catalog with pictures whose home's id lies in a folder alone, as before schema 0006."""
    with Catalog.open(postgres_url) as catalog:
        add_picture(catalog)
    return postgres_url


@pytest.mark.server
def test_after_an_upgrade_no_new_folder_decides_the_id_but_the_one_used_so_far(tmp_path: Path, upgraded: str) -> None:
    used, new = Home(tmp_path / "used"), Home(tmp_path / "new")
    used.prepare()
    used.settle("lodestoneofold")
    with pytest.raises(ConfigurationError) as caught:
        id_of(new.path, upgraded)
    assert str(new.path) in caught.value.message
    assert "LODESTONE_HOME" in caught.value.hint
    assert not new.has_id()
    assert id_of(used.path, upgraded) == "lodestoneofold" == id_of(new.path, upgraded)


@pytest.mark.server
def test_where_the_folder_used_so_far_is_lost_its_id_is_written_into_the_new_one(tmp_path: Path, upgraded: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        id_of(tmp_path / "new", upgraded)
    marker = Home(tmp_path / "new").marker
    assert str(marker) in caught.value.hint
    marker.write_text(json.dumps(json.loads(marker.read_text("utf-8")) | {"id": "lodestoneofold"}), "utf-8")
    assert id_of(tmp_path / "new", upgraded) == "lodestoneofold" == id_of(tmp_path / "another", upgraded)


@pytest.mark.server
def test_the_doctor_tells_of_a_catalog_that_waits_for_its_id_as_a_finding(tmp_path: Path, upgraded: str) -> None:
    looked = run_here("doctor", "-o", "json", home=tmp_path / "new", LODESTONE_CATALOG_URL=upgraded)
    checks = {check["name"]: check for check in looked.json}
    assert looked.code == 1, looked.err
    for name in ("catalog", "consistency"):
        assert not checks[name]["ok"]
        assert "home.json" in checks[name]["hint"]
    assert checks["home"]["finding"] == str(tmp_path / "new")
    (tmp_path / "file").touch()
    nowhere = run_here("doctor", "-o", "json", home=tmp_path / "file" / "home", LODESTONE_CATALOG_URL=upgraded)
    assert nowhere.code == 1, nowhere.err


@pytest.mark.server
def test_a_new_folder_lists_failures_and_directories_of_the_catalog_on_the_server(tmp_path: Path, upgraded: str) -> None:
    Home(tmp_path / "used").prepare()
    Home(tmp_path / "used").settle("lodestoneofold")
    assert id_of(tmp_path / "used", upgraded) == "lodestoneofold"
    failures = run_here("status", "--failures", "-o", "json", home=tmp_path / "one", LODESTONE_CATALOG_URL=upgraded)
    assert [row["code"] for row in failures.json] == ["image_damaged"], failures.err
    listed = run_here("directory", "list", "-o", "json", home=tmp_path / "two", LODESTONE_CATALOG_URL=upgraded)
    assert [one["path"] for one in listed.json] == ["/pictures/holidays"], listed.err


@pytest.mark.server
def test_the_demonstration_keeps_away_from_a_catalog_with_other_pictures(tmp_path: Path, upgraded: str) -> None:
    new = tmp_path / "new"
    demo = run_here("demo", "--home", new, home=new, LODESTONE_CATALOG_URL=upgraded)
    assert demo.code == 2
    assert "holidays" in demo.err and "LODESTONE_CATALOG_URL" in demo.err
    assert not new.exists()  # nor has it the id of the catalog's home


@pytest.mark.server
def test_drivers_that_start_at_once_in_new_folders_agree(tmp_path: Path, postgres_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda number: id_of(tmp_path / str(number), postgres_url), range(4)))) == 1


@pytest.mark.server
def test_a_folder_of_another_home_is_refused_until_it_gives_up_its_id(tmp_path: Path, postgres_url: str) -> None:
    agreed = id_of(tmp_path / "one", postgres_url)
    other = id_of(tmp_path / "two", None)
    with pytest.raises(ConfigurationError) as caught:
        id_of(tmp_path / "two", postgres_url)
    assert agreed in caught.value.message
    assert other in caught.value.message
    marker = Home(tmp_path / "two").marker
    assert id_of(tmp_path / "two", None) == other  # and nothing was changed
    content = json.loads(marker.read_text("utf-8"))
    del content["id"]
    marker.write_text(json.dumps(content), "utf-8")
    assert id_of(tmp_path / "two", postgres_url) == agreed


@pytest.mark.server
def test_a_catalog_that_took_the_wrong_id_gives_it_up(tmp_path: Path, postgres_url: str) -> None:
    id_of(tmp_path / "wrong", postgres_url)
    right = id_of(tmp_path / "right", None)
    with pytest.raises(ConfigurationError, match=right) as caught:
        id_of(tmp_path / "right", postgres_url)
    assert "`DELETE FROM home_facts`" in caught.value.hint
    with Catalog.open(postgres_url) as catalog:
        catalog._write(lambda connection: connection.execute(text("DELETE FROM home_facts")))
    assert id_of(tmp_path / "right", postgres_url) == right == id_of(tmp_path / "new", postgres_url)


@pytest.mark.server
def test_a_new_folder_knows_what_the_catalog_on_the_server_knows(tmp_path: Path, postgres_url: str) -> None:
    elsewhere = Settings(home=tmp_path / "elsewhere", catalog_url=postgres_url)
    assert home_of(elsewhere).exists()
    assert not home_of(Settings(home=tmp_path / "alone")).exists()
