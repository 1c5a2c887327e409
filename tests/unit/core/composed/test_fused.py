"""Fused vectors: their products are joint similarities, and what a picture lacks is remembered."""

import numpy as np
import pytest
from numpy.typing import NDArray

from lodestone.composed.fused import FusedLayout, FusedSpace, fused_alias, narrowed, summed
from lodestone.composed.joint import JointPart, scores
from lodestone.errors import InvalidRequestError
from lodestone.store.base import Filter, MatchAny

LAYOUT = FusedLayout(
    "shop",
    (
        FusedSpace("bridge", "bridge-1", 8),
        FusedSpace("captions", "captions-1", 6, optional=True),
        FusedSpace("faces", "faces-1", 4, optional=True),
    ),
)


def unit(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def made(rng: np.random.Generator, count: int) -> dict[str, NDArray[np.float32]]:
    vectors = {space.name: unit(rng.standard_normal((count, space.dim))) for space in LAYOUT.spaces}
    for name in ("captions", "faces"):
        vectors[name][rng.random(count) < 0.4] = np.nan
    return vectors


def question(rng: np.random.Generator) -> list[JointPart]:
    return [
        JointPart(f"{space.name}{number}", space.name, unit(rng.standard_normal(space.dim)), float(rng.random()))
        for number in range(2)
        for space in LAYOUT.spaces
    ]


def test_products_divided_by_the_weight_of_what_is_there_are_the_joint_similarities() -> None:
    rng = np.random.default_rng(2)
    vectors = made(rng, 40)
    stored, holds = LAYOUT.join(vectors), LAYOUT.holds(vectors)
    for _ in range(20):
        parts = question(rng)
        products = stored @ LAYOUT.asked(parts)
        wanted = scores(parts, vectors)
        reached = set()
        for presence in LAYOUT.presences(parts):
            values = [condition.values[0] for condition in presence.condition if isinstance(condition, MatchAny)]
            rows = [row for row, held in enumerate(holds) if set(values) <= set(held)]
            np.testing.assert_allclose(products[rows] / presence.weight, wanted[rows], atol=1e-5)
            reached.update(rows)
        assert reached == set(range(40))


def test_a_query_of_optional_spaces_alone_leaves_out_what_has_none_of_them() -> None:
    part = JointPart("words", "captions", unit(np.ones(6)), 0.7)
    (presence,) = LAYOUT.presences([part])
    assert presence.condition == (MatchAny("holds", ("captions",)),)
    assert presence.weight == pytest.approx(0.7)


def test_splitting_gives_back_what_was_joined() -> None:
    vectors = made(np.random.default_rng(3), 12)
    for name, rows in LAYOUT.split(LAYOUT.join(vectors), LAYOUT.holds(vectors)).items():
        np.testing.assert_allclose(rows, vectors[name], atol=1e-6)


def test_stored_vectors_are_no_longer_than_1_so_that_engines_compare_them_well() -> None:
    lengths = np.linalg.norm(LAYOUT.join(made(np.random.default_rng(4), 30)), axis=1)
    assert lengths.max() <= 1 + 1e-6


def test_another_version_of_a_space_is_another_collection_behind_the_same_alias() -> None:
    swapped = FusedLayout("shop", (FusedSpace("bridge", "bridge-2", 8), *LAYOUT.spaces[1:]))
    assert swapped.collection != LAYOUT.collection
    assert swapped.alias == LAYOUT.alias == fused_alias("shop") == "fused.shop"
    assert LAYOUT.collection.rpartition("-")[0] == LAYOUT.alias  # how a sync knows its retired versions


def test_parts_that_the_layout_cannot_hold_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="has no space 'labels'"):
        LAYOUT.asked([JointPart("a", "labels", unit(np.ones(3)), 1)])
    with pytest.raises(InvalidRequestError, match="has 9 numbers; its vectors have 8"):
        LAYOUT.asked([JointPart("a", "bridge", unit(np.ones(9)), 1)])
    with pytest.raises(InvalidRequestError, match="two parts in the space 'bridge' have 8 and 9 numbers"):
        summed([JointPart("a", "bridge", unit(np.ones(8)), 1), JointPart("b", "bridge", unit(np.ones(9)), 1)])


def test_conditions_are_added_to_a_filter() -> None:
    one, other = MatchAny("root", ("a",)), MatchAny("holds", ("captions",))
    assert narrowed(None, ()) is None
    assert narrowed(None, (other,)) == Filter((other,))
    assert narrowed(Filter((one,), (one,)), (other,)) == Filter((one, other), (one,))
