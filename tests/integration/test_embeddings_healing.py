"""A file that was cut, lost or altered by hand is made again by the next run, and nothing else with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.home import open_runtime, vectors_of
from tests.support.home_copies import IndexedHomes

from lodestone.embeddings.audit import damaged_parts
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest


@pytest.fixture
def runtime(indexed_homes: IndexedHomes, tmp_path: Path) -> Iterator[Runtime]:
    indexed_homes.put_photos(tmp_path, 10)
    with open_runtime(tmp_path) as opened:
        yield opened


def _index(runtime: Runtime, folder: Path) -> IndexReport:
    return index_paths(runtime, IndexRequest((folder / "photos",)))


def _damage(runtime: Runtime, how: str, *, part: str = "efficientnet-lite0") -> Path:
    victim = next(runtime.home.embeddings.rglob(f"*.{part}*.parquet"))
    content = bytearray(victim.read_bytes())
    if how == "lost":
        victim.unlink()
    elif how == "cut":
        victim.write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 0xFF
        victim.write_bytes(content)
    return victim


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize(("how", "part"), [("cut", "efficientnet-lite0"), ("lost", "efficientnet-lite2"), ("cut", "meta")])
def test_the_next_run_makes_a_cut_or_lost_file_again(runtime: Runtime, tmp_path: Path, how: str, part: str) -> None:
    before = vectors_of(runtime, "bridge")
    others = {path: path.stat().st_mtime_ns for path in runtime.home.embeddings.rglob("*.parquet")}
    victim = _damage(runtime, how, part=part)
    report = _index(runtime, tmp_path)
    assert report.counts["damaged"] == 1
    assert report.counts["unchanged"] == 10
    after = vectors_of(runtime, "bridge")
    assert after.keys() == before.keys()
    assert all(np.allclose(after[key], before[key], atol=1e-3) for key in before)
    changed = {path for path, when in others.items() if path.stat().st_mtime_ns != when}
    assert changed == {victim}
    assert (
        list(damaged_parts(runtime.catalog, runtime.embeddings, runtime.catalog.corpus("default").corpus_id, deep=True)) == []
    )
    assert "damaged" not in {name for name, count in _index(runtime, tmp_path).counts.items() if count}


def test_a_file_that_turns_out_to_be_altered_while_it_is_loaded_is_made_again_by_the_same_run(
    runtime: Runtime, tmp_path: Path
) -> None:
    victim = _damage(runtime, "altered")
    corpus_id = runtime.catalog.corpus("default").corpus_id
    assert list(damaged_parts(runtime.catalog, runtime.embeddings, corpus_id)) == []  # sizes cannot tell
    found = [receipt.path for receipt, _ in damaged_parts(runtime.catalog, runtime.embeddings, corpus_id, deep=True)]
    assert found == [victim.relative_to(runtime.home.embeddings).as_posix()]
    runtime.store.drop(runtime.store.aliases()["bridge"])
    report = _index(runtime, tmp_path)
    assert report.counts["damaged"] == 1
    assert 0 < report.counts["embedded"] <= 8
    assert len(vectors_of(runtime, "bridge")) == 10
