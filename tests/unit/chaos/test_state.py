"""The comparison that ends a round of chaos tells of everything that may be lost, doubled or altered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.chaos.rounds import KINDS, faults_of, kinds_of
from tests.chaos.state import State, differences

_VECTORS = {f"id-{n}": np.full(4, n, np.float32) for n in range(3)}
WANTED = State(
    images={f"{n}.jpg": (f"id-{n}", "active", "0" * 64) for n in range(3)},
    failures=(("bad.jpg", "truncated"),),
    outputs=_VECTORS,
    collections={("pixels-1", 0): _VECTORS},
    counts={"pixels-1": (3, 3, 3)},
    thumbnails=frozenset({"0.jpg", "1.jpg"}),
    strays=(),
    doubles=(),
)
_FEWER = {key: vector for key, vector in _VECTORS.items() if key != "id-2"}


def test_the_same_is_no_difference() -> None:
    assert differences(replace(WANTED), WANTED) == []


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (replace(WANTED, images={**WANTED.images, "2.jpg": ("other", "active", "0" * 64)}), "images differ: 2.jpg"),
        (replace(WANTED, failures=()), "failures differ"),
        (replace(WANTED, outputs=_FEWER), "outputs in Parquet: 1 are lost, 0 are too many"),
        (replace(WANTED, collections={("pixels-1", 0): {**_VECTORS, "id-3": _VECTORS["id-0"]}}), "0 are lost, 1 are too many"),
        (replace(WANTED, collections={("pixels-1", 0): {**_VECTORS, "id-1": _VECTORS["id-1"] + 0.001}}), "1 vectors differ"),
        (replace(WANTED, collections={}, counts={}), "collections are []"),
        (replace(WANTED, counts={"pixels-1": (3, 2, 3)}), "the store's nodes count (3, 2, 3) points, not (3, 3, 3)"),
        (replace(WANTED, thumbnails=frozenset({"0.jpg"})), "thumbnails differ: ['1.jpg']"),
        (replace(WANTED, strays=("a/b.parquet",)), "a stray file: a/b.parquet"),
        (replace(WANTED, doubles=("id-0",)), "a picture in several slices: id-0"),
    ],
)
def test_each_difference_is_told(found: State, says: str) -> None:
    problems = differences(found, WANTED)
    assert len(problems) == 1
    assert says in problems[0]


def test_every_kind_of_victim_comes_first_in_as_many_rounds_and_faults_follow_from_the_seed() -> None:
    assert {kinds_of(seed)[0] for seed in range(len(KINDS))} == set(KINDS)
    steps = [1.0, 2.0, 5.0, 9.0, 10.0]
    for seed in range(20):
        faults = faults_of(seed, kinds_of(seed), steps, embedded=3)
        assert faults == faults_of(seed, kinds_of(seed), steps, embedded=3)
        assert len({fault.kind for fault in faults}) == len(faults)
        assert all(1 <= fault.step <= len(steps) for fault in faults)
        assert all(fault.step <= 3 for fault in faults if fault.kind == "worker")
