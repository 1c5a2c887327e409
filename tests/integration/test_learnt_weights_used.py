"""Composed queries use the weights of modalities that were learnt in the home, without being asked to."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.support.homes import home_settings, index, write_pictures

from lodestone.composed.learned import LearnedWeights, weights_kind
from lodestone.composed.weights import ModalityWeights
from lodestone.config.compositions import choose_composition
from lodestone.config.settings import Settings
from lodestone.home.runtime import Runtime
from lodestone.query.tree import Compose, Image, Text
from lodestone_schemas.api import SearchOptions


async def _ask(settings: Settings) -> list[dict[tuple[str, str], float]]:
    """Return (part, space) -> weight of each hit of a composed query."""
    with Runtime.open(settings) as runtime:
        root = runtime.catalog.roots(None)[0]
        image_id = next(iter(runtime.catalog.images_of_root(root.root_id))).image_id
        query = Compose(((Text("a cup of coffee"), 1.0), (Image(image_id), 1.0)))
        events = [event async for event in runtime.engine().ask(query, SearchOptions(limit=50, explain=True))]
        hits = events[-1].response.hits  # type: ignore[union-attr]  # the last one is the answer
        parts = [hit.contributions or [] for hit in hits]
        for hit, of_hit in zip(hits, parts, strict=True):
            assert math.fsum(part.part or 0.0 for part in of_hit) == pytest.approx(hit.score, abs=1e-5)
        return [{(part.guide, part.space): part.weight or 0.0 for part in of_hit} for of_hit in parts]


async def test_composed_queries_use_learnt_weights(tmp_path: Path) -> None:
    write_pictures(tmp_path / "pictures", drawn=30)
    settings = home_settings(tmp_path / "home")
    index(settings, tmp_path / "pictures")
    before = await _ask(settings)
    assert all(len(parts) > 2 for parts in before)
    with Runtime.open(settings) as runtime:
        names = [one.name for one in choose_composition("default", {}, runtime.configured).modalities]
        wanted = {"bridge-words": 0.9, "bridge-picture": 0.1}
        learnt = LearnedWeights("default", ModalityWeights({name: wanted.get(name, 0.0) for name in names}))
        learnt.save(runtime.home.artifacts)
        runtime.catalog.add_artifact(weights_kind("default"), learnt.version, learnt.path, {})
        runtime.catalog.activate_artifact(weights_kind("default"), learnt.version)
    for parts in await _ask(settings):
        assert set(parts) == {("words", "bridge"), ("picture", "bridge")}
        assert parts["words", "bridge"] > parts["picture", "bridge"]
