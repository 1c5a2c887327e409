"""An erasure deletes or restarts the slices that need it, and leaves old files for later while another run lives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lodestone.embeddings.erasure import Eraser, ErasureReport


class _Catalog:
    """Lists one slice to erase, with so many pictures that wait and others; knows some runs."""

    def __init__(self, *, pending: int = 0, others: int = 0, runs: tuple[Any, ...] = ()) -> None:
        self.counts, self.running = (pending, others), runs
        self.done: list[str] = []

    def slices_to_erase(self, _corpus_id: str) -> list[Any]:
        return [SimpleNamespace(slice_id="s", corpus_id="c", fingerprint="ab12")]

    def count_living(self, _slice_id: str) -> tuple[int, int]:
        return self.counts

    def runs(self, _limit: int, **_conditions: object) -> tuple[Any, ...]:
        return self.running

    def bytes_to_erase(self, _corpus_id: str) -> tuple[int, int]:
        return 1, 700

    def receipts(self, _slice_id: str) -> dict[str, Any]:
        return {}

    def known_files(self, *_names: object) -> tuple[set[str], set[str]]:
        return {"c/ff/ff00.meta.parquet"}, {"ee00"}

    def restart_slice(self, slice_id: str) -> None:
        self.done.append(f"restart {slice_id}")

    def drop_slice(self, slice_id: str) -> None:
        self.done.append(f"drop {slice_id}")


class _Area:
    """Files of two slices, one of captions that were replaced, and the corpus's record."""

    def __init__(self) -> None:
        self.paths = [
            "c/ab/ab12.meta.parquet",
            "c/ab/ab123.meta.parquet",
            "c/ee/ee00.meta.parquet",
            "c/ff/ff00.meta.parquet",
            "c/dd/dd00.captions.parquet",
            "c/corpus.json",
        ]

    def files(self, folder: str) -> list[Any]:
        return [SimpleNamespace(path=path) for path in self.paths if path.startswith(f"{folder}/")]

    def delete(self, path: str) -> bool:
        if path in self.paths:
            self.paths.remove(path)
        return True


def run(catalog: _Catalog, *, own_run: str = "") -> tuple[ErasureReport, list[str]]:
    area, packs = _Area(), SimpleNamespace(remove=lambda _name: True)
    before = list(area.paths)
    report = Eraser(cast("Any", catalog), cast("Any", area), cast("Any", packs), own_run).run("c")
    return report, [path for path in before if path not in area.paths]


def other_run(*, silent: timedelta, run_id: str = "r") -> Any:
    return SimpleNamespace(run_id=run_id, heartbeat_at=datetime.now(UTC) - silent, started_at=datetime.now(UTC))


def test_a_slice_without_pictures_goes_with_its_files_and_those_that_nothing_names() -> None:
    catalog = _Catalog()
    report, deleted = run(catalog)
    assert report == ErasureReport(slices=1)
    assert catalog.done == ["drop s"]
    assert deleted == ["c/ab/ab12.meta.parquet", "c/ab/ab123.meta.parquet", "c/dd/dd00.captions.parquet"]


def test_a_slice_with_waiting_pictures_starts_again() -> None:
    catalog = _Catalog(pending=1, others=3)
    report, deleted = run(catalog)
    assert report == ErasureReport(slices=1, again=1)
    assert catalog.done == ["restart s"]
    assert "c/ab/ab12.meta.parquet" in deleted


@pytest.mark.parametrize(
    ("silent", "run_id", "waits"),
    [(timedelta(minutes=9), "r", True), (timedelta(minutes=11), "r", False), (timedelta(0), "own", False)],
)
def test_old_files_wait_for_another_run_that_lives(silent: timedelta, run_id: str, *, waits: bool) -> None:
    catalog = _Catalog(runs=(other_run(silent=silent, run_id=run_id),))
    report, deleted = run(catalog, own_run="own")
    assert report == (ErasureReport(waiting=1, waiting_bytes=700) if waits else ErasureReport(slices=1))
    assert bool(deleted) is not waits
