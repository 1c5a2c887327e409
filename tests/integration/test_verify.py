"""Every kind of difference between catalog, Parquet files and collections is found, told and mended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.support.cli import run_here
from tests.support.home import open_runtime, vectors_of
from tests.support.pictures import write_photos
from tests.support.points import point_id

from lodestone.errors import StoreError
from lodestone.home.runtime import Runtime
from lodestone.indexing.progress import silent
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.sync.collections import make_targets, sync
from lodestone.indexing.sync.targets import Target
from lodestone.indexing.sync.verify import CollectionVerification, examine, repair_collection, verify
from lodestone.store.base import PointBatch
from lodestone_schemas.collections import CollectionSpec

COUNT = 20


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """A home of 20 pictures; each test leaves it as it was."""
    folder = tmp_path_factory.mktemp("verify")
    write_photos(folder / "photos", COUNT)
    with open_runtime(folder) as opened:
        index_paths(opened, IndexRequest((folder / "photos",)))
        yield opened


@pytest.fixture
def bridge(runtime: Runtime) -> Target:
    return next(target for target in make_targets(runtime) if target.alias == "bridge")


def look(runtime: Runtime, target: Target) -> CollectionVerification:
    return examine(runtime.store, target, progress=silent, sample=None)


def swap_for_strangers(runtime: Runtime, target: Target, count: int) -> list[str]:
    """As many points vanish as others appear: the count stays; returns the ids that vanished."""
    ids = sorted(vectors_of(runtime, "bridge"))[:count]
    gone = runtime.store.retrieve(target.collection, ids)
    runtime.store.delete(target.collection, ids)
    runtime.store.upsert(target.collection, PointBatch([point_id(n) for n in range(count)], gone.vectors, gone.payloads))
    return ids


def test_a_sound_home_is_sound(runtime: Runtime) -> None:
    for target in make_targets(runtime):
        found = look(runtime, target)
        assert found.ok
        if target.alias != "captions":
            assert found.points == found.expected == found.compared == COUNT


def test_as_many_surplus_points_as_missing_ones_do_not_hide_each_other(runtime: Runtime, bridge: Target) -> None:
    gone = swap_for_strangers(runtime, bridge, 3)
    problem = verify(runtime.store, bridge, progress=silent)
    assert isinstance(problem, StoreError)
    found = look(runtime, bridge)
    assert (found.ok, found.points, found.expected, found.missing, found.surplus) == (False, COUNT, COUNT, 3, 3)
    assert set(gone) <= set(found.examples)
    assert repair_collection(runtime.store, bridge, found) > 0
    assert look(runtime, bridge).ok


def test_a_sync_repairs_them_too(runtime: Runtime, bridge: Target) -> None:
    before = vectors_of(runtime, "bridge")
    swap_for_strangers(runtime, bridge, 2)
    sync(runtime)
    after = vectors_of(runtime, "bridge")
    assert after.keys() == before.keys()
    assert all(np.allclose(after[key], before[key], atol=1e-6) for key in before)


def test_other_vectors_and_other_filter_fields_are_found_and_mended(runtime: Runtime, bridge: Target) -> None:
    ids = sorted(vectors_of(runtime, "bridge"))
    there = runtime.store.retrieve(bridge.collection, ids[:2])
    moved = [{**there.payloads[1], "folders": ["elsewhere"]}]
    runtime.store.upsert(bridge.collection, PointBatch(ids[:1], -there.vectors[:1], there.payloads[:1]))
    runtime.store.upsert(bridge.collection, PointBatch(ids[1:2], there.vectors[1:2], moved))
    found = look(runtime, bridge)
    assert (found.missing, found.surplus, found.differing, found.stale) == (0, 0, 1, 1)
    assert set(found.examples) == set(ids[:2])
    repair_collection(runtime.store, bridge, found)
    assert look(runtime, bridge).ok


def test_a_vector_that_was_only_made_longer_is_another_one(runtime: Runtime, bridge: Target) -> None:
    ids = sorted(vectors_of(runtime, "bridge"))[:1]
    there = runtime.store.retrieve(bridge.collection, ids)
    runtime.store.upsert(bridge.collection, PointBatch(ids, 3 * there.vectors, there.payloads))
    found = look(runtime, bridge)
    assert (found.differing, found.stale, found.examples) == (1, 0, tuple(ids))
    repair_collection(runtime.store, bridge, found)
    assert look(runtime, bridge).ok


@pytest.mark.parametrize(("sample", "compared"), [(0, 0), (1, 1), (COUNT - 5, COUNT - 5), (COUNT, COUNT), (1000, COUNT)])
def test_as_many_vectors_are_compared_as_were_asked_for(runtime: Runtime, bridge: Target, sample: int, compared: int) -> None:
    assert examine(runtime.store, bridge, progress=silent, sample=sample).compared == compared


def test_a_cut_file_is_told_and_the_rest_looked_at(runtime: Runtime, bridge: Target) -> None:
    victim = next(runtime.home.embeddings.rglob("*.efficientnet-lite0-*.parquet"))
    content = victim.read_bytes()
    victim.write_bytes(content[:-100])
    try:
        found = look(runtime, bridge)
    finally:
        victim.write_bytes(content)
    assert len(found.damaged) == 1
    assert victim.name in found.damaged[0]
    assert 0 < found.compared < COUNT


def test_what_waits_to_be_loaded_is_no_difference(runtime: Runtime, bridge: Target) -> None:
    runtime.catalog.forget_loads(bridge.collection)
    runtime.store.delete(bridge.collection, sorted(vectors_of(runtime, "bridge"))[:5])
    found = look(runtime, bridge)
    assert (found.ok, found.unloaded, found.missing, found.points) == (True, COUNT, 0, COUNT - 5)
    sync(runtime)
    assert look(runtime, bridge).points == COUNT


def test_aliases_that_point_nowhere_are_set_right_or_forgotten(runtime: Runtime, bridge: Target) -> None:
    runtime.catalog.alias_table().set("bridge", "bridge-lost")
    runtime.catalog.alias_table().set("retired", "retired-1")
    assert not look(runtime, bridge).ok
    sync(runtime)
    assert runtime.store.aliases()["bridge"] == bridge.collection
    assert "retired" not in runtime.store.aliases()
    runtime.store.ping()


def test_a_collection_of_other_dimensions_is_refused_with_what_to_do(runtime: Runtime, bridge: Target) -> None:
    runtime.store.drop(bridge.collection)
    runtime.store.create(CollectionSpec(bridge.collection, 8))
    with pytest.raises(StoreError, match=f"length 8, not {bridge.dim}") as caught:
        sync(runtime)
    assert "lodestone index" in caught.value.hint
    runtime.store.drop(bridge.collection)
    sync(runtime)
    assert look(runtime, bridge).ok


def test_the_command_tells_what_differs_and_repairs_it(runtime: Runtime, bridge: Target) -> None:
    swap_for_strangers(runtime, bridge, 3)
    runtime.close()
    verify_here = partial(run_here, "verify", "--output", "json", home=runtime.home.path)
    told = verify_here()
    assert told.code == 7
    facts = {one["alias"]: one for one in told.json["collections"]}
    assert (facts["bridge"]["missing"], facts["bridge"]["surplus"], facts["labels"]["ok"]) == (3, 3, True)
    assert json.loads(told.err)["error"]["collections"] == [bridge.collection]
    mended = run_here("verify", "--repair", "--all", "--output", "json", home=runtime.home.path)
    assert mended.code == 0
    assert mended.json["reloaded"] > 0
    assert verify_here().code == 0


def test_an_altered_byte_of_a_file_that_nothing_loads_is_found_by_verify_all_and_made_again(tmp_path: Path) -> None:
    """Vectors and points are all right: only the checksum of the `meta` file's receipt tells."""
    write_photos(tmp_path / "photos", 4)
    with open_runtime(tmp_path) as opened:
        index_paths(opened, IndexRequest((tmp_path / "photos",)))
        home, embeddings = opened.home.path, opened.home.embeddings
    victim = next(embeddings.rglob("*.meta.parquet"))
    sound = victim.read_bytes()
    altered = bytearray(sound)
    altered[len(altered) // 2] ^= 0xFF
    victim.write_bytes(altered)
    told = run_here("verify", "--all", "--output", "json", home=home)
    assert told.code == 15
    assert [Path(file["path"]).name for file in told.json["files"]["damaged"]] == [victim.name]
    assert all(one["ok"] for one in told.json["collections"])
    assert "lodestone verify --all --repair" in json.loads(told.err)["error"]["hint"]
    assert victim.name in run_here("verify", "--all", home=home).out  # so far nothing was changed
    assert "--deep compares checksums too" in run_here("embeddings", "verify", home=home).out

    repaired = run_here("verify", "--all", "--repair", "--output", "json", home=home)
    assert repaired.code == 15
    assert "`lodestone index` makes them again" in json.loads(repaired.err)["error"]["hint"]
    with open_runtime(tmp_path) as opened:
        index_paths(opened, IndexRequest((tmp_path / "photos",)))
    healed = run_here("verify", "--all", "--output", "json", home=home)
    assert (healed.code, healed.json["files"]) == (0, {"damaged": []})
    assert victim.read_bytes() == sound


def test_the_command_says_what_a_sample_leaves_open(runtime: Runtime) -> None:
    runtime.close()
    told = run_here("verify", "--sample", "12", home=runtime.home.path)
    assert "bridge: ok  20 of 20 points, 12 vectors compared" in told.out
    said = " ".join(told.out.split())
    assert "at most 25.0% of the vectors are wrong if those are scattered" in said
    assert "at most 100.0% of the slices from end to end; --all compares every one" in said
    whole = run_here("verify", home=runtime.home.path)
    assert "all 20 vectors compared" in whole.out
    assert "a sample" not in whole.out


def test_a_home_whose_catalog_is_empty_differs_in_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert run_here("runs", "list", home=home).code == 0
    with open_runtime(tmp_path) as opened:
        opened.catalog.ensure_corpus("default")
    assert run_here("verify", home=home).code == 0


def test_nothing_indexed_is_told_as_such(tmp_path: Path) -> None:
    told = run_here("verify", home=tmp_path / "none")
    assert told.code == 3
    assert "nothing is indexed" in told.err


def test_what_a_model_swap_has_not_filled_yet_is_not_wrong_and_what_is_searched_has_to_be_there(
    runtime: Runtime, bridge: Target
) -> None:
    bridge.collection = "bridge-another-version"
    lost = look(runtime, bridge)
    bridge.promoted = False
    begun = look(runtime, bridge)
    assert (lost.ok, lost.exists) == (False, False)
    assert (begun.ok, begun.exists, begun.standing_by, begun.unloaded) == (True, False, True, COUNT)
