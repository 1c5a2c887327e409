"""Guides in a query: what fits into the time left, how they are embedded, what they weigh."""

import asyncio
import time

import numpy as np
import pytest

from lodestone.clock import Stopwatch, remaining, within
from lodestone.generators.base import Guide
from lodestone.query.guides.search import FusionSettings, embed_guides, fit, searches_of


@pytest.mark.parametrize(
    ("left", "expected"),
    [(10.0, (9, 6)), (0.30, (5, 6)), (0.06, (1, 6)), (0.05, (1, 5)), (0.01, (1, 1)), (0.005, (0, 0)), (0.0, (0, 0))],
)
def test_fewer_guides_go_first_then_fewer_spaces_then_all(left, expected):
    assert fit(9, 6, seconds_a_list=0.01, left=left + 1e-9) == expected


def test_nothing_to_search_fits_nothing():
    assert fit(0, 6, seconds_a_list=0.01, left=1.0) == (0, 0)
    assert fit(3, 0, seconds_a_list=0.01, left=1.0) == (0, 0)
    assert fit(3, 2, seconds_a_list=0.0, left=1.0) == (3, 2)


class Pictures:
    """An encoder that tells how it was called."""

    collections = {"a": "a-1", "b": "b-1"}  # noqa: RUF012

    def __init__(self):
        self.calls = []

    async def embed_pictures(self, pictures, *, deadline=None):
        self.calls.append(len(pictures))
        return {name: np.stack([np.full(2, row, np.float32) for row in range(len(pictures))]) for name in ("a-1", "b-1")}


def searches(guides, encoder=None, *, weight=0.5, spaces=None):
    spaces = spaces or {"a": "a-1", "b": "b-1"}
    vectors = asyncio.run(embed_guides(guides, encoder=encoder or Pictures(), collections=spaces.values()))
    return searches_of(
        guides,
        vectors,
        spaces=spaces,
        space_weights={"a": 0.75, "b": 0.25},
        settings=FusionSettings(guide_weight=weight),
    )


def guide(name, *, weight=1.0, pixels=None, **vectors):
    return Guide(name, "engine", weight, {}, pixels=pixels, vectors={f"{key}-1": value for key, value in vectors.items()})


def test_all_guides_together_never_outweigh_their_budget():
    vector = np.ones(2, np.float32)
    for guides in (
        [guide(f"g{row}", a=vector, b=vector, weight=0.8) for row in range(7)],
        [guide("g", a=vector, b=vector, weight=0.3)],
    ):
        total = sum(one.weight for one in searches(guides))
        assert total <= 0.5 + 1e-9
    assert total == pytest.approx(0.15)  # one doubtful guide counts as little as it trusts itself


def test_pixels_of_all_guides_are_embedded_in_one_call_and_vectors_are_not_embedded_again():
    encoder, pixels = Pictures(), np.zeros((4, 4, 3), np.uint8)
    given = np.full(2, 9, np.float32)
    found = searches([guide("p", pixels=pixels), guide("v", a=given, b=given), guide("m", pixels=pixels, a=given)], encoder)
    assert encoder.calls == [2]
    by = {(one.guide, one.space): one.vector[0] for one in found}
    assert by == {("p", "a"): 0, ("p", "b"): 0, ("v", "a"): 9, ("v", "b"): 9, ("m", "a"): 9, ("m", "b"): 1}


def test_a_guide_without_a_vector_in_a_space_is_not_searched_there():
    found = searches([guide("v", a=np.ones(2, np.float32))])
    assert [(one.guide, one.space, one.collection) for one in found] == [("v", "a", "a-1")]


async def test_work_ends_at_the_deadline():
    with pytest.raises(TimeoutError):
        await within(asyncio.sleep(60), time.monotonic() + 0.05)
    assert await within(asyncio.sleep(0, "done"), time.monotonic() + 5) == "done"
    assert remaining(time.monotonic() - 1) == 0
    assert remaining(None) == float("inf")


def test_a_stage_that_runs_twice_adds_up():
    watch = Stopwatch()
    watch.add("search", 0.5)
    watch.add("search", 0.25)
    with watch.stage("fuse"):
        pass
    assert watch.timings_ms()["search"] == 750
    assert watch.seconds("search") == 0.75
    assert list(watch.timings_ms()) == ["search", "fuse", "total"]
