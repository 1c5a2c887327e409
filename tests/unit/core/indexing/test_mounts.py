"""Pictures whose disk is not mounted stay, and deleted ones are still called gone."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.library import Library
from tests.support.pictures import jpeg_bytes

from lodestone.catalog.catalog import Catalog
from lodestone.indexing.scan import mounts
from lodestone.indexing.scan.mounts import Mounts


class Disks:
    """Folders that seem to be mounted; stands in for what the system tells: a table, or the numbers of devices."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, table: bool) -> None:
        self.mounted: list[Path] = []
        monkeypatch.setattr(mounts, "_device", self.device)
        monkeypatch.setattr(mounts, "_mount_points", lambda: frozenset({"/", *map(str, self.mounted)}) if table else None)

    def device(self, path: str) -> int | None:
        there = Path(os.path.realpath(path))
        if not there.exists():
            return None
        return next((number for number, disk in enumerate(self.mounted, 1000) if disk in (there, *there.parents)), 1)

    def unmount(self, disk: Path) -> None:
        self.mounted.remove(disk)
        for path in disk.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture(params=["table", "devices"])
def disks(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Disks:
    return Disks(monkeypatch, table=request.param == "table")


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    for name in ("here/a", "nas/b", "nas/deep/c"):
        path = tmp_path / "photos" / f"{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg_bytes((40, 30), seed=len(name)))
    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        yield Library(catalog, tmp_path / "photos", record=tmp_path / "mounts.json")


def test_pictures_of_a_disk_that_is_not_mounted_stay_and_are_the_same_when_it_is_back(library: Library, disks: Disks) -> None:
    nas = library.folder / "nas"
    disks.mounted.append(nas)
    before = library.look()
    shutil.copytree(nas, kept := library.folder.with_name("kept"))
    disks.unmount(nas)
    assert library.look() == before
    assert (library.counts, library.away) == ({"unchanged": 1, "away": 2}, {str(nas): 2})
    nas.rmdir()  # as desktops do with what they mount
    assert library.look() == before
    shutil.copytree(kept, nas)
    disks.mounted.append(nas)
    (nas / "b.jpg").unlink()
    assert library.look() == {"here/a": "here/a", "nas/deep/c": "nas/deep/c"}


def test_a_link_to_a_disk_counts_as_the_disk(library: Library, disks: Disks) -> None:
    disk = library.folder.with_name("disk")
    shutil.move(library.folder / "nas", disk / "photos")
    (library.folder / "nas").symlink_to(disk / "photos")
    disks.mounted.append(disk)
    before = library.look()
    disks.unmount(disk)
    assert library.look() == before
    assert library.away == {str(disk): 2}


def test_a_directory_that_is_a_disk_itself_keeps_its_pictures_though_something_lies_in_the_empty_folder(
    library: Library, disks: Disks
) -> None:
    disks.mounted.append(library.folder)
    library.look()
    disks.unmount(library.folder)
    (library.folder / "stray.jpg").write_bytes(b"stray")
    assert set(library.look()) == {"here/a", "nas/b", "nas/deep/c", "stray"}


def test_a_folder_of_the_same_disk_that_is_emptied_or_deleted_is_gone(library: Library, disks: Disks) -> None:
    library.look()
    for path in (library.folder / "nas").rglob("*.jpg"):
        path.unlink()
    assert library.look() == {"here/a": "here/a"}
    assert library.counts == {"unchanged": 1, "gone": 2}
    assert not library.record.exists()  # type: ignore[union-attr]


def test_a_damaged_record_is_written_anew(library: Library, disks: Disks) -> None:
    assert library.record is not None
    library.record.write_text("[")
    disks.mounted.append(library.folder / "nas")
    before = library.look()
    disks.unmount(library.folder / "nas")
    assert library.look() == before


def test_a_directory_inside_another_keeps_its_pictures_when_the_disk_around_it_is_not_mounted(
    library: Library, disks: Disks
) -> None:
    nas = library.folder / "nas"
    disks.mounted.append(nas)
    library.look(nas / "deep")
    before = library.look()
    disks.unmount(nas)
    assert library.look() == before
    assert library.away == {str(nas): 2}


def test_a_disk_is_noted_also_when_a_part_of_it_alone_was_looked_at(library: Library, disks: Disks) -> None:
    nas = library.folder / "nas"
    library.look()
    disks.mounted.append(nas)
    before = library.look(nas / "deep")
    disks.unmount(nas)
    assert library.look()["nas/deep/c"] == before["nas/deep/c"]
    assert library.away == {str(nas): 1}


def test_where_the_system_tells_what_is_mounted_a_folder_of_another_device_is_no_disk_and_a_bind_is(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks = Disks(monkeypatch, table=True)
    monkeypatch.setattr(mounts, "_device", lambda path: 2 if "deep" in path else 1)  # a subvolume; `nas` is a bind
    nas = library.folder / "nas"
    disks.mounted.append(nas)
    library.look()
    assert library.record is not None
    assert json.loads(library.record.read_text()) == {str(nas): str(nas)}


def test_the_table_of_mounts_is_read_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "36 22 8:1 /other /mnt/my\\040photos rw - ext4 /dev/sda1 rw\n"
        "40 22 0:50 / /net/nas rw,relatime - autofs /etc/auto.nas rw,fd=7\n"
    )
    monkeypatch.setattr(mounts, "_TABLE", table)
    assert mounts._mount_points() == frozenset({"/", "/mnt/my photos"})
    monkeypatch.setattr(mounts, "_TABLE", tmp_path / "none")
    assert mounts._mount_points() is None


def test_what_two_runs_note_at_once_is_all_kept(tmp_path: Path, disks: Disks) -> None:
    tops = [tmp_path / f"{number}" for number in range(8)]
    for top in tops:
        top.mkdir()
        disks.mounted.append(top)
    record = tmp_path / "mounts.json"
    opened = [Mounts(record) for _ in tops]
    with ThreadPoolExecutor(len(tops)) as pool:
        list(pool.map(lambda one, top: list(one.watching([], top, around=top)), opened, tops))
    assert json.loads(record.read_text()).keys() == {str(top) for top in tops}


def test_a_directory_that_is_removed_takes_its_disks_along_but_for_those_of_others(tmp_path: Path, disks: Disks) -> None:
    record = tmp_path / "mounts.json"
    for name in ("photos/nas", "photos/own/disk", "other/disk"):
        path = tmp_path / name
        path.mkdir(parents=True)
        disks.mounted.append(path)
        list(Mounts(record).watching([], path, around=path))
    Mounts(record).forget(tmp_path / "photos", others=[tmp_path / "photos" / "own", tmp_path / "other"])
    assert json.loads(record.read_text()).keys() == {str(tmp_path / "photos/own/disk"), str(tmp_path / "other/disk")}


def test_pictures_of_a_disk_that_was_given_away_go_once_its_line_is_deleted(library: Library, disks: Disks) -> None:
    nas = library.folder / "nas"
    disks.mounted.append(nas)
    library.look()
    disks.unmount(nas)
    assert "nas/b" in library.look()
    assert library.record is not None
    library.record.write_text("{}")
    assert library.look() == {"here/a": "here/a"}
