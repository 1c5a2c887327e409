"""A fused collection follows the pictures, their captions and the settings, and holds what the spaces' own collections hold."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from tests.support.home import image_ids, settings_for, vectors_of
from tests.support.pictures import write_photo, write_photos

from lodestone.composed.joint import JointPart
from lodestone.composed.search import JointSearch
from lodestone.config.compositions import CompositionSettings, choose_composition
from lodestone.config.settings import StoreSettings
from lodestone.home.runtime import Runtime
from lodestone.indexing.progress import silent
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.sync.collections import make_targets, sync
from lodestone.indexing.sync.verify import examine
from lodestone_schemas.collections import Quantization

COUNT = 20
ALIAS = "fused.default"


def opened(folder: Path, *, fused: bool | None) -> Runtime:
    settings = settings_for(folder)
    own = {"default": CompositionSettings(fused=fused)}
    return Runtime.open(settings.model_copy(update={"compositions": own}), purpose="a test")


def other_spaces(folder: Path) -> Runtime:
    settings = settings_for(folder)
    bridge_alone = CompositionSettings.model_validate({"modalities": {"picture": {"space": "bridge"}}, "fused": True})
    return Runtime.open(settings.model_copy(update={"compositions": {"default": bridge_alone}}), purpose="a test")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home of 20 pictures, the first of which has two captions and the second one."""
    place = tmp_path_factory.mktemp("fused")
    write_photos(place / "photos", COUNT)
    (place / "photos" / "000000.txt").write_text("a red kite\na boy on a hill\n", encoding="utf-8")
    (place / "photos" / "000001.txt").write_text("two dogs\n", encoding="utf-8")
    with opened(place, fused=True) as runtime:
        index_paths(runtime, IndexRequest((place / "photos",)))
    return place


def check_in_line(runtime: Runtime, *, pictures: int, captioned: Mapping[str, int]) -> None:
    """Fail unless the fused collection is complete and holds the vectors of the other collections."""
    target = next(target for target in make_targets(runtime) if target.alias == ALIAS)
    found = examine(runtime.store, target, progress=silent, sample=None)
    assert found.ok, found
    fused = vectors_of(runtime, ALIAS)
    assert len(fused) == pictures == found.compared
    bridge, labels = vectors_of(runtime, "bridge"), vectors_of(runtime, "labels")
    means: dict[str, np.ndarray] = {}
    for batch in runtime.store.scroll(runtime.store.aliases()["captions"]):
        for vector, payload in zip(batch.vectors, batch.payloads, strict=True):
            means[payload["image"]] = means.get(payload["image"], 0) + vector
    assert set(means) == set(captioned)
    nothing = np.zeros(384, np.float32)
    for image_id, vector in fused.items():
        mean = means.get(image_id, nothing)
        mean = mean / max(float(np.linalg.norm(mean)), 1e-9)
        wanted = np.concatenate([bridge[image_id], labels[image_id], mean]) / np.sqrt(3)
        np.testing.assert_allclose(vector, wanted, atol=1e-5)


def test_points_can_be_made_by_another_process(folder: Path) -> None:
    with opened(folder, fused=True) as runtime:
        target = next(target for target in make_targets(runtime) if target.alias == ALIAS)
        graph = target.spec(runtime.settings.store, runtime.profile).hnsw
        assert (graph.m, graph.ef_construct) == (32, 256)  # more edges than the profile's graphs have
        binary = runtime.settings.store.model_copy(update={"quantization": Quantization.BINARY})
        assert target.spec(binary, runtime.profile).quantization is Quantization.INT8
        maker, group = pickle.loads(pickle.dumps((target.maker, target.plan(list(runtime.catalog.slices())))))
        points = maker.points(runtime.embeddings, group)
        stored = runtime.store.retrieve(target.collection, points.ids)
        assert len(points) == COUNT
        np.testing.assert_allclose(stored.vectors, points.vectors, atol=1e-6)
        assert list(stored.payloads) == list(points.payloads)


def test_it_follows_pictures_captions_and_settings(folder: Path) -> None:
    with opened(folder, fused=True) as runtime:
        ids = image_ids(runtime)
        first, second, third = (ids[f"photos/00000{number}.jpg"] for number in range(3))
        check_in_line(runtime, pictures=COUNT, captioned={first: 2, second: 1})

        (folder / "photos" / "000002.jpg").unlink()
        (folder / "photos" / "000001.txt").unlink()
        (folder / "photos" / "000000.txt").write_text("a green kite\n", encoding="utf-8")
        write_photos(folder / "photos" / "more", 2)
        index_paths(runtime, IndexRequest((folder / "photos",)))
        assert third not in vectors_of(runtime, ALIAS)
        check_in_line(runtime, pictures=COUNT - 1 + 2, captioned={first: 1})

        composition = choose_composition("default", runtime.settings.compositions, runtime.profile)
        words = runtime.text_encoder
        words.warm_up()
        parts = [
            JointPart("picture", "bridge", vectors_of(runtime, "bridge")[second], 0.5),
            JointPart("captions", "captions", words.encode(["a green kite"])[0], 0.5),
        ]
        aliases = runtime.store.aliases()
        through = JointSearch(runtime.store).search(parts, 5, composition=composition, aliases=aliases)
        del aliases[ALIAS]
        without = JointSearch(runtime.store).search(parts, 5, composition=composition, aliases=aliases)
        assert (through.through, without.through) == ("fused", "spaces")
        assert through.ids == without.ids
        np.testing.assert_allclose(through.scores, without.scores, atol=1e-5)

    with other_spaces(folder) as runtime:  # as a new version of a space: another layout, another collection, the same alias
        before = runtime.store.aliases()[ALIAS]
        report = sync(runtime)
        after = runtime.store.aliases()[ALIAS]
        assert after != before
        assert runtime.store.info(after).points == COUNT + 1
        assert before in runtime.store.collections() and not report.dropped  # for queries that resolved the alias before
        assert sync(runtime).dropped == (before,)

    with opened(folder, fused=False) as runtime:
        collection = runtime.store.aliases()[ALIAS]
        sync(runtime)
        assert ALIAS not in runtime.store.aliases()
        assert collection in runtime.store.collections()  # for queries that resolved the alias before
        assert sync(runtime).dropped == (collection,)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_collection_is_built_again_when_more_than_a_fifth_was_replaced(tmp_path: Path) -> None:
    """The number of pictures stays, so nothing but what was written since the build tells that the graph lacks them."""
    photos = tmp_path / "photos"
    write_photos(photos, COUNT)
    with opened(tmp_path, fused=True) as runtime:
        runtime.settings = runtime.settings.model_copy(update={"store": StoreSettings(build_threshold=10)})

        def built() -> set[str]:
            report = index_paths(runtime, IndexRequest((photos,))).sync
            assert report is not None
            return {one.alias for one in report.collections if one.built}

        assert built() == {"bridge", "labels", ALIAS}
        assert built() == set()

        def replace(count: int, *, seed: int) -> None:
            for number, path in enumerate(sorted(photos.glob("*.jpg"))[:count]):
                path.unlink()
                write_photo(photos / f"{seed + number}.jpg", seed=seed + number)

        replace(3, seed=100_000)
        assert built() == set()
        replace(COUNT // 2, seed=200_000)
        assert built() == {"bridge", "labels", ALIAS}
        assert runtime.store.outside_graph(runtime.store.aliases()[ALIAS]) == 0
        assert built() == set()


def test_small_homes_have_none_unless_the_settings_say_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(folder, fused=None) as runtime:
        assert all(target.alias != ALIAS for target in make_targets(runtime))
        monkeypatch.setattr("lodestone.config.compositions.FUSED_FROM", 10)
        assert any(target.alias == ALIAS for target in make_targets(runtime))
        monkeypatch.setattr("lodestone.config.compositions.FUSED_UP_TO", 15)  # large ones have none either
        assert all(target.alias != ALIAS for target in make_targets(runtime))
