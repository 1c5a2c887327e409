"""A file gets written even where unfinished files are swept away at that moment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lodestone.errors import ConfigurationError
from lodestone.files.local import LocalArea
from lodestone.files.opening import open_area


def test_a_file_whose_unfinished_form_is_swept_away_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    area, swept, real = LocalArea(tmp_path), [], os.fsync

    def sweep(handle: int) -> None:
        if not sum(swept):
            swept.append(area.sweep("corpus"))
        real(handle)

    monkeypatch.setattr(os, "fsync", sweep)
    area.write("corpus/ab/part.parquet", b"rows")
    assert sum(swept) == 1
    assert bytes(area.read("corpus/ab/part.parquet")) == b"rows"
    assert area.sweep("corpus") == 0


def test_a_folder_that_is_swept_without_end_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    area = LocalArea(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: area.sweep("corpus"))
    with pytest.raises(ConfigurationError, match="nothing can be written"):
        area.write("corpus/ab/part.parquet", b"rows")


@pytest.mark.parametrize("place", ["{}/area", "memory://{}"])
def test_a_draft_is_in_the_area_once_it_is_whole(tmp_path: Path, place: str) -> None:
    area = open_area(place.format(tmp_path))
    area.write("folder/former", b"before")
    with area.draft("folder/former") as file:
        file.write(b"after")
        file.write(b"wards")
        assert bytes(area.read("folder/former")) == b"before"
    assert bytes(area.read("folder/former")) == b"afterwards"
    with area.draft("folder/empty"):
        pass
    assert area.size("folder/empty") == 0
    with pytest.raises(ValueError, match="closed"), area.draft("folder/never") as file:
        file.close()
    assert [stored.path for stored in area.files()] == ["folder/empty", "folder/former"]
    assert area.sweep("") == 0, "a draft was left behind"
