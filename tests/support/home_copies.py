"""Homes that are indexed once for many tests: each test gets a copy, which knows its own folder and that of its pictures.

Indexing a few pictures takes half a second of a processor, and copying the home a tenth of that.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

HOME: Final = "home"
PHOTOS: Final = "photos"
_BLOCK: Final = 1 << 16
_ZEROS: Final = bytes(_BLOCK)


def copy_folder(source: Path, target: Path) -> Path:
    """Copy a folder as `shutil.copytree` does, but for blocks of zeros, which become holes; the target may exist.

    A home of a few pictures is 2 MB in 500 MB of zeros, which the store keeps for later.
    """
    return shutil.copytree(source, target, copy_function=_copy_file, dirs_exist_ok=True)


def _copy_file(source: str, target: str) -> str:
    size = Path(source).stat().st_size
    if size <= _BLOCK:
        return shutil.copy2(source, target)
    with Path(source).open("rb", buffering=0) as old, Path(target).open("wb", buffering=0) as new:
        new.truncate(size)
        offset = 0
        while (offset := _next_data(old.fileno(), offset)) < size:
            block = os.pread(old.fileno(), _BLOCK, offset)
            if block != _ZEROS[: len(block)]:
                os.pwrite(new.fileno(), block, offset)
            offset += len(block)
    shutil.copystat(source, target)
    return target


def _next_data(descriptor: int, offset: int) -> int:
    """Return where the next byte is that lies in no hole, where holes are known."""
    if not hasattr(os, "SEEK_DATA"):
        return offset
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return 1 << 62


class IndexedHomes:
    """Folders with pictures and homes in which they are indexed, each made when it is first asked for.

    Args:
        folder: Where they are kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[str, str], Path] = {}

    def put_photos(self, target: Path, count: int) -> list[Path]:
        """Put the folder `photos` and a home with its pictures into a folder; returns the pictures, which `write_photos` wrote.

        They are indexed as by `open_runtime(target)` in its usual settings.
        """
        self.put(target, f"{count} photos", lambda folder: _index_photos(folder, count))
        return sorted((target / PHOTOS).iterdir())

    def put(self, target: Path, name: str, make: Callable[[Path], object]) -> None:
        """Put what `make` makes in an empty folder into a folder, with the home's paths in that folder.

        Args:
            target: The folder.
            name: Says what is made; another module may use it for something else.
            make: Makes a `home`, which nothing has open afterwards, and what is indexed in it beside it.
        """
        key = (make.__module__, name)
        if key not in self._made:
            place = self._folder / f"{len(self._made)}" / "made"
            place.mkdir(parents=True)
            make(place)
            self._made[key] = copy_folder(place, place.with_name("kept"))
            shutil.rmtree(place)
        kept = self._made[key]
        copy_folder(kept, target)
        _move_paths(target / HOME, str(kept.with_name("made")), str(target))


def _index_photos(folder: Path, count: int) -> None:
    from tests.support.home import open_runtime  # imports numpy, as the next do: not before its threads are set
    from tests.support.pictures import write_photos

    from lodestone.indexing.run.index_run import index_paths
    from lodestone.indexing.run.report import IndexRequest

    write_photos(folder / PHOTOS, count)
    with open_runtime(folder) as runtime:
        index_paths(runtime, IndexRequest((folder / PHOTOS,)))


def _move_paths(home: Path, before: str, after: str) -> None:
    """Put another folder's name wherever a home names the folder in which it was made."""
    with closing(sqlite3.connect(home / "catalog.sqlite")) as catalog, catalog:
        catalog.execute("UPDATE roots SET path = replace(path, ?, ?)", (before, after))
        catalog.execute("UPDATE runs SET request = replace(request, ?, ?)", (before, after))
    for record in home.glob("embeddings/*/corpus.json"):
        record.write_text(record.read_text("utf-8").replace(before, after), "utf-8")


@pytest.fixture(scope="session")
def indexed_homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IndexedHomes]:
    """Homes that the tests of this process share."""
    folder = tmp_path_factory.mktemp("template")
    yield IndexedHomes(folder)
    shutil.rmtree(folder, ignore_errors=True)
