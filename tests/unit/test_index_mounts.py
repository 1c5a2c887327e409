"""Do pictures stay whose disk is not mounted, and are deleted ones still called gone?"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.library import Library
from tests.support.pictures import jpeg_bytes

from lodestone.catalog.catalog import Catalog
from lodestone.indexing import mounts
from lodestone.indexing.mounts import Mounts
from lodestone.sources.base import FoundFile


class Disks:
    """Folders that seem to be mounted; stands in for the numbers of devices."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mounted: list[Path] = []
        watching = Mounts.watching

        def seen(own: Mounts, files: Iterable[FoundFile], top: Path) -> Iterator[FoundFile]:
            return watching(own, (replace(file, inode=(self.device(file.locator) or 0, file.inode[1])) for file in files), top)

        monkeypatch.setattr(mounts, "_device", self.device)
        monkeypatch.setattr(Mounts, "watching", seen)

    def device(self, path: str) -> int | None:
        there = Path(os.path.realpath(path))
        if not there.exists():
            return None
        return next((number for number, disk in enumerate(self.mounted, 1000) if disk in (there, *there.parents)), 1)

    def unmount(self, disk: Path) -> None:
        self.mounted.remove(disk)
        for path in disk.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> Disks:
    return Disks(monkeypatch)


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
