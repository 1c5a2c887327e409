"""A file gets written even where unfinished files are swept away at that moment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lodestone.errors import ConfigurationError
from lodestone.files.local import LocalArea


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
