"""Do folders on several machines that share a catalog on a server share the home's id, and is a mix-up refused?"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lodestone.catalog.catalog import Catalog
from lodestone.config.home import Home, home_of
from lodestone.config.settings import Settings
from lodestone.errors import ConfigurationError
from lodestone.opened import OpenedHome


def id_of(folder: Path, url: str | None) -> str:
    """The id with which a home in that folder names its collections."""
    opened = OpenedHome(Settings(home=folder, catalog_url=url), Home(folder), purpose="a test")
    try:
        assert opened.catalog.count_images() == 0
        return opened.home.id
    finally:
        opened.close()


def test_the_first_id_stays(catalog: Catalog) -> None:
    assert catalog.home_id(otherwise="one") == "one"
    assert catalog.home_id(otherwise="two") == "one"
    catalog.set_home_id("three")
    assert catalog.home_id(otherwise="two") == "three"
    assert not any(catalog.count_rows().values())


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
def test_a_new_folder_knows_what_the_catalog_on_the_server_knows(tmp_path: Path, postgres_url: str) -> None:
    elsewhere = Settings(home=tmp_path / "elsewhere", catalog_url=postgres_url)
    assert home_of(elsewhere).exists()
    assert not home_of(Settings(home=tmp_path / "alone")).exists()
