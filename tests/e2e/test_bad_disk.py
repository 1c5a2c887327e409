"""A full disk is told to people, and everything is there once it has room."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.bad_input import (
    assert_one_clear_json_error,
    run_apart,
    three_photos,  # noqa: F401 - fixtures
)
from tests.support.pictures import write_photos
from tests.support.small_disk import SmallDisk, small_disk

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with ExitStack() as stack:
        opened = stack.enter_context(small_disk(tmp_path / "disk"))
        if opened is None:
            pytest.skip("this system allows no mounts; tests/integration/test_index_inline.py has a full disk without one")
        yield opened


@pytest.mark.parametrize("spare", [64 * 1024, 24 * 2**20], ids=["the catalog and files do not fit", "the vectors do not fit"])
def test_a_full_disk_is_told_and_the_same_command_completes_once_there_is_room(
    disk: SmallDisk, photos: Path, tmp_path: Path, spare: int
) -> None:
    """The home lies on a real file system without room (a tmpfs made small)."""
    home = disk.path / "home"
    first = run_apart("index", photos, "--corpus", "first", home=home, prefix=disk.prefix)
    assert first.code == 0, first.err
    write_photos(tmp_path / "more", 12, size=(600, 400))
    disk.leave(spare)
    words = ("index", tmp_path / "more", "--corpus", "second", "--output", "json")
    full = run_apart(*words, home=home, prefix=disk.prefix)
    assert_one_clear_json_error(full, 11, "no_space_left")
    disk.grow()
    again = run_apart(*words, home=home, prefix=disk.prefix)
    assert again.code == 0, again.err
    assert again.json["images"] == 12
    found = run_apart("search", "a cat", "--limit", "100", "--output", "json", home=home, prefix=disk.prefix).json["hits"]
    assert found[0]["uri"] == "chelsea.jpg"
    assert len(found) == 15
    assert run_apart("status", "--failures", "--output", "json", home=home, prefix=disk.prefix).json == []


def test_a_search_on_a_disk_in_memory_without_room_says_so_instead_of_dying(disk: SmallDisk, photos: Path) -> None:
    """The engine reads its sparse files when it opens them, and a tmpfs gives a page to every hole that is read."""
    home = disk.path / "home"
    assert run_apart("index", photos, home=home, prefix=disk.prefix).code == 0
    disk.leave(2**20)
    words = ("search", "a cat", "--output", "json")
    assert_one_clear_json_error(run_apart(*words, home=home, prefix=disk.prefix), 11, "no_space_left")
    disk.grow()
    assert run_apart(*words, home=home, prefix=disk.prefix).json["hits"]


@pytest.mark.parametrize("read_only", [False, True], ids=["full", "read-only"])
def test_a_home_on_a_full_or_read_only_disk_can_be_searched_but_not_changed(
    disk: SmallDisk, photos: Path, read_only: bool
) -> None:
    home = disk.path / "home"
    assert run_apart("index", photos, home=home, prefix=disk.prefix).code == 0
    if read_only:
        disk.read_only()
    else:
        disk.leave(0)
    found = run_apart("search", "a cat", "--output", "json", home=home, prefix=disk.prefix)
    assert found.code == 0, found.err
    assert found.json["hits"][0]["uri"] == "chelsea.jpg"
    assert len([warning for warning in found.json["warnings"] if "not recorded" in warning]) == 1
    status = run_apart("status", "--output", "json", home=home, prefix=disk.prefix)
    assert status.code == 0, status.err
    assert status.json["corpora"][0]["images"] == len(found.json["hits"])
    changed = run_apart("index", photos, "--output", "json", home=home, prefix=disk.prefix)
    assert_one_clear_json_error(changed, *((4, "bad_configuration") if read_only else (11, "no_space_left")))
