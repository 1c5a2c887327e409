"""Commands that list what is there without words: pictures by folder and date, and the texts of tags."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import run_here
from tests.support.pictures import write_photo

NAMES = ("2019/IMG_20190704_101500.jpg", "2019/IMG_20190801_101500.jpg", "2020/IMG_20200101_101500.jpg", "2020/undated.jpg")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browsed")
    for seed, name in enumerate(NAMES):
        write_photo(folder / "pictures" / name, seed=seed)
    assert run_here("index", str(folder / "pictures"), home=folder / "home").code == 0
    return folder / "home"


def listed(home: Path, *options: str) -> list[str]:
    """Return the names of the pictures that are listed, in their order."""
    done = run_here("browse", *options, "--output", "json", home=home)
    assert done.code == 0, done.err
    return [Path(image["path"]).name for image in done.json["images"]]


def test_pictures_are_listed_by_folder_and_date_newest_first(home: Path) -> None:
    names = [Path(name).name for name in NAMES]
    assert listed(home) == [names[2], names[1], names[0], names[3]]
    assert listed(home, "--path", "2019") == [names[1], names[0]]
    assert listed(home, "--month", "2019-07") == [names[0]]
    assert listed(home, "--from", "2019-08-01") == [names[2], names[1]]


def test_people_get_days_and_paths_and_are_told_of_more(home: Path) -> None:
    lines = run_here("browse", "--limit", "3", home=home).out.splitlines()
    assert lines[0].startswith("2020-01-01  ")
    assert lines[0].endswith("/pictures/2020/IMG_20200101_101500.jpg")
    assert lines[3] == "3 pictures, and more: --limit shows them"
    assert run_here("browse", "--path", "2020", home=home).out.splitlines()[-1] == "2 pictures"


def test_a_list_goes_on_over_pages(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lodestone_cli.commands.browse._PAGE", 1)
    assert len(listed(home, "--limit", "3")) == 3
    assert len(listed(home, "--limit", "9")) == 4


def test_texts_of_tags_are_listed_with_their_pictures(home: Path) -> None:
    ids = [image["image_id"] for image in run_here("browse", "--output", "json", home=home).json["images"]]
    assert "no tags" in run_here("tags", "texts", home=home).out
    assert run_here("tags", "add", "garden", ids[0], home=home).code == 0
    assert run_here("tags", "add", "lake", *ids[:3], home=home).code == 0
    assert [line.split() for line in run_here("tags", "texts", home=home).out.splitlines()] == [["3", "lake"], ["1", "garden"]]
