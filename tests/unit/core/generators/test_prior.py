"""The generator `prior`: seeded draws that are the same in every round and process."""

from __future__ import annotations

import logging
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from lodestone.errors import ModelUnavailableError
from lodestone.generators.base import GuideRequest
from lodestone.generators.engines.prior import Prior
from lodestone.generators.engines.prior_weights import PriorWeights
from lodestone.spaces.bridge_arrays import unit
from lodestone.training.prior import fit_space

SPACES = {"bridge": "bridge-1", "labels": "labels-1"}


def weights() -> PriorWeights:
    rng = np.random.default_rng(0)
    texts = unit(rng.normal(size=(80, 12)))
    return PriorWeights({name: fit_space(texts, unit(rng.normal(size=(80, 6)))) for name in SPACES.values()})


def request(n: int = 4, **more) -> GuideRequest:
    vector = unit(np.random.default_rng(1).normal(size=(1, 12)))[0]
    collections = more.pop("collections", {**SPACES, "captions": "captions-1", "tags": "tags-1"})
    return GuideRequest("a dog", "a dog", n, text_vectors={"minilm": vector}, collections=collections, **more)


def same(one, other) -> bool:
    return one.guide_id == other.guide_id and all(
        np.array_equal(one.vectors[name], other.vectors[name]) for name in one.vectors.keys() | other.vectors.keys()
    )


async def test_every_space_gets_a_vector_of_length_one_and_every_guide_another() -> None:
    guides = await Prior(weights()).generate(request())
    assert [guide.guide_id for guide in guides] == [f"prior/{number}" for number in range(4)]
    for guide in guides:
        assert set(guide.vectors) == set(SPACES.values())
        assert all(np.linalg.norm(vector) == pytest.approx(1, abs=1e-5) for vector in guide.vectors.values())
        assert 0 < guide.weight <= 1
    assert len({guide.vectors["bridge-1"].tobytes() for guide in guides}) == 4


async def test_rounds_of_one_give_what_one_round_gives() -> None:
    together = await Prior(weights()).generate(request())
    apart = [(await Prior(weights()).generate(request(1, first=number)))[0] for number in range(4)]
    assert all(same(*pair) for pair in zip(together, apart, strict=True))


async def test_words_seed_and_number_make_the_draw() -> None:
    (first,) = await Prior(weights()).generate(request(1))
    for other in (request(1, seed=1), replace(request(1), query="a cat")):
        (drawn,) = await Prior(weights()).generate(other)
        assert not same(first, drawn)


async def test_another_process_draws_the_same() -> None:
    asked = "from tests.unit.core.generators.test_prior import *; import asyncio; "
    asked += "print(asyncio.run(Prior(weights()).generate(request(1)))[0].vectors['labels-1'].tobytes().hex())"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    (guide,) = await Prior(weights()).generate(request(1))
    np.testing.assert_allclose(np.frombuffer(bytes.fromhex(done.stdout), np.float32), guide.vectors["labels-1"], atol=1e-6)


async def test_a_space_of_another_version_gets_nothing_and_it_is_said_once(caplog) -> None:
    prior = Prior(weights())
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            guides = await prior.generate(request(1, collections={"bridge": "bridge-9", "labels": "labels-1"}))
            assert set(guides[0].vectors) == {"labels-1"}
    (said,) = [one.getMessage() for one in caplog.records]
    assert "bridge-9" in said and "train bridge" in said


async def test_what_it_cannot_draw_for_is_an_error_with_a_way_out() -> None:
    for asked in (request(collections={"bridge": "bridge-9"}), replace(request(), text_vectors={"e5": np.ones(3, np.float32)})):
        with pytest.raises(ModelUnavailableError) as raised:
            await Prior(weights()).generate(asked)
        assert raised.value.hint
    assert await Prior(weights()).generate(request(0)) == []
    assert await Prior(weights()).generate(request(collections={"captions": "captions-1"})) == []


async def test_versions_that_ship_are_known_beside_those_learnt_here() -> None:
    prior = Prior(weights())
    await prior.warm_up()
    assert set(prior.weights.spaces) == {*SPACES.values(), *PriorWeights.shipped().spaces}
