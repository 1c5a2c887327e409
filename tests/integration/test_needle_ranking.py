"""NEEDLE's own ranking in the engine: guides alone, by eq. 4, with weights that follow its trust rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests.support.collection import PROFILE, Collection, fillers, load_models, photos
from tests.support.photos import CAT, COFFEE, ROCKET

from lodestone.generators.base import Generator, Guide, GuideRequest
from lodestone.query.contracts import EqualWeights
from lodestone.query.engine import QueryEngine
from lodestone.query.guides.captions import CaptionRule
from lodestone.query.guides.search import GUIDES_ALONE
from lodestone.query.retrieving.learned_stages import LearnedModels
from lodestone_eval.needle_engines import JudgedSystem, NeedleTrust
from lodestone_schemas.api import SearchRequest

SPACES = ("labels", "labels0")
WEIGHTS = {"labels": 0.75, "labels0": 0.25}
PROFILE_WITH_WEIGHTS = replace(PROFILE, generators=("planned",), space_priors=WEIGHTS)


class Planned(Generator):
    """Guides that are pictures of the collection, of very different weights, which NEEDLE's ranking does not know."""

    name = "planned"
    version = "1"

    def __init__(self, collection: Collection, *uris: str) -> None:
        projections = collection.models.projections
        self.vectors = [
            {
                projections[space].collection: collection.store.retrieve(
                    projections[space].collection, [collection.ids[uri]]
                ).vectors[0]
                for space in SPACES
            }
            for uri in uris
        ]

    async def warm_up(self) -> None:
        return

    async def generate(self, request: GuideRequest) -> list[Guide]:
        numbers = range(request.first, min(request.first + request.n, len(self.vectors)))
        return [
            Guide(f"planned/{number}", self.name, (0.9, 0.1)[number % 2], {}, vectors=self.vectors[number])
            for number in numbers
        ]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    made = Collection(tmp_path_factory.mktemp("home"), load_models())
    made.add("photos", photos())
    made.add("made", fillers(40))
    made.caption({COFFEE: ["a rocket on its launch pad"]})
    yield made
    made.close()


def engine_of(collection: Collection, generator: Generator, trust: NeedleTrust | None = None) -> QueryEngine:
    return collection.engine(
        generators={generator.name: generator},
        profile=PROFILE_WITH_WEIGHTS,
        weigher=EqualWeights(),
        fusion=GUIDES_ALONE,
        captions=CaptionRule(weight=0.0),
        learnt=LearnedModels(trust=trust),
    )


def request(**more: object) -> SearchRequest:
    fields = {"query": "a rocket", "fusion": "weighted_reciprocal_rank", "guides": 2, "limit": 60, "outliers": False} | more
    return SearchRequest.model_validate(fields)


def by_equation_four(collection: Collection, generator: Planned, weights: dict[str, float]) -> dict[str, float]:
    """Uri -> score of eq. 4, computed from the stored vectors: sum of weight / rank over guides and spaces."""
    uris = {image_id: uri for uri, image_id in collection.ids.items()}
    scores = dict.fromkeys(collection.ids, 0.0)
    for space in SPACES:
        name = collection.models.projections[space].collection
        points = collection.store.retrieve(name, list(uris))
        for vectors in generator.vectors:
            order = np.argsort(-(points.vectors @ vectors[name]), kind="stable")
            for rank, row in enumerate(order, 1):
                scores[uris[points.ids[row]]] += weights[space] / rank
    return scores


async def test_guides_alone_rank_by_equation_four_whatever_the_words_and_captions_say(collection: Collection) -> None:
    generator = Planned(collection, CAT, COFFEE)
    response = await engine_of(collection, generator).answer(request(explain=True))
    expected = by_equation_four(collection, generator, WEIGHTS)
    found = {hit.uri: hit.score for hit in response.hits}
    assert {part.guide for hit in response.hits for part in hit.contributions or ()} == {"planned/0", "planned/1"}
    # All weights together are 1: each of the two guides has half of its space's.
    assert found == pytest.approx({uri: score / 2 for uri, score in expected.items()}, abs=1e-4)
    assert [hit.uri for hit in response.hits[:2]] == sorted((CAT, COFFEE), key=lambda uri: -expected[uri])
    words = await engine_of(collection, generator).answer(request(guides=0))
    assert words.hits[0].uri == ROCKET != response.hits[0].uri


async def test_where_no_guide_comes_the_words_answer(collection: Collection) -> None:
    response = await engine_of(collection, Planned(collection)).answer(request())
    assert (response.stage, response.hits[0].uri) == ("text", ROCKET)


async def test_weights_follow_needles_rule_from_one_judged_answer_to_the_next(collection: Collection) -> None:
    """The user wants the cat, and finds everything else among the first ten wrong."""
    generator = Planned(collection, CAT)
    trust = NeedleTrust(0.1, WEIGHTS)
    system = JudgedSystem(engine_of(collection, generator, trust), trust, [frozenset({collection.ids[CAT]})] * 2)
    asked = request(guides=1, trust=True, explain=True, topic="animals")
    first = await system.answer(asked)
    losses = dict.fromkeys(SPACES, 0.0)
    for hit in first.hits[:10]:
        for part in hit.contributions or ():
            if hit.image_id != collection.ids[CAT]:
                losses[part.space] += 1 / part.rank
    after = {space: WEIGHTS[space] * (1 - 0.1 * losses[space]) for space in SPACES}
    total = sum(after.values())
    assert losses["labels"] > 0 < losses["labels0"]
    second = await system.answer(asked)
    assert second.trust == pytest.approx({space: weight / total for space, weight in after.items()})
    assert trust.assign(np.zeros(1, np.float32), encoder="minilm", topic="vehicles", spaces=SPACES).weights == pytest.approx(
        WEIGHTS
    )
