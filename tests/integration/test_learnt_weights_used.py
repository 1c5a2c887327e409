"""Composed queries use the weights of modalities that were learnt in the home, without being asked to."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest
from tests.support.homes import home_settings, index, write_pictures
from tests.support.in_process import opened_services

from lodestone.access.caller import LOCAL_CALLER
from lodestone.composed.learned import LearnedWeights, weights_kind
from lodestone.composed.weights import ModalityWeights
from lodestone.config.compositions import choose_composition
from lodestone.config.settings import Settings
from lodestone.home.runtime import Runtime
from lodestone.query.asking.tree import Compose, Image, Text
from lodestone.query_log.trace import load_trace
from lodestone.services.sessions.recording import wait_until_recorded
from lodestone_schemas.api import SearchOptions, SearchRequest


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
    with Runtime.open(settings) as runtime:
        composition = choose_composition("default", {}, runtime.configured)
        names = [one.name for one in composition.modalities]
        assert runtime.modality_weights(composition) == ModalityWeights.equal(names)
    before = await _ask(settings)
    assert all(len(parts) > 2 for parts in before)
    with Runtime.open(settings) as runtime:
        wanted = {"bridge-words": 0.9, "bridge-picture": 0.1}
        learnt = LearnedWeights("default", ModalityWeights({name: wanted.get(name, 0.0) for name in names}))
        learnt.save(runtime.home.artifacts)
        runtime.catalog.add_artifact(weights_kind("default"), learnt.version, learnt.path, {})
        runtime.catalog.activate_artifact(weights_kind("default"), learnt.version)
        assert runtime.modality_weights(composition) == learnt.weights
    for parts in await _ask(settings):
        assert set(parts) == {("words", "bridge"), ("picture", "bridge")}
        assert parts["words", "bridge"] > parts["picture", "bridge"]


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("given", [{}, {"words": 2.0}], ids=["no weights", "words twice"])
async def test_requests_are_ranked_by_the_weights_as_they_were_set_and_those_that_they_give_multiply_them(
    tmp_path: Path, given: dict[str, float]
) -> None:
    write_pictures(tmp_path / "pictures", drawn=30)
    wanted = {"bridge-words": 0.25, "bridge-picture": 0.75}
    settings = home_settings(tmp_path / "home", compositions={"default": {"weights": wanted, "rule": "sum"}})
    index(settings, tmp_path / "pictures")
    async with opened_services(settings) as services:
        (picture, *_) = services.session.runtime.catalog.images_of_root(services.session.runtime.catalog.roots(None)[0].root_id)
        request = SearchRequest(query="a cup of coffee", like=[picture.image_id], weights=given, explain=True, limit=5)
        answer = await services.search.answer(request, LOCAL_CALLER)
        await wait_until_recorded(services.session, answer.query_id)
        trace = await asyncio.to_thread(load_trace, services.session.runtime.catalog, answer.query_id)
    # The ranking weighs similarities in units of their spread, so the weights of cosines are those divided by the spreads.
    cosine = {one.guide: one.weight / (one.scale or 1.0) for one in trace.completed}
    assert cosine["words"] / cosine["picture"] == pytest.approx(given.get("words", 1.0) * 0.25 / 0.75, rel=1e-4)
