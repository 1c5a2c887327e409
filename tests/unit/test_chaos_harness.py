"""The rounds of chaos notice what is wrong, and do not pass when nothing was killed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from tests.chaos import rounds
from tests.chaos.cluster import ChaosCluster
from tests.chaos.state import State, differences

WANTED = State(
    images={"a.jpg": ("1", "active", "h")},
    failures=(),
    outputs={"1": np.ones(3, np.float32), "1 sidecar words": np.ones(2, np.float32)},
    collections={("pixels", 0): {"1": np.ones(3, np.float32)}, ("pixels", 1): {"1": np.ones(3, np.float32)}},
    counts={"pixels": (1, 1)},
    thumbnails=frozenset({"h.webp"}),
    strays=(),
    doubles=(),
)
CLUSTER = cast("ChaosCluster", None)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"images": {"a.jpg": ("2", "active", "h")}}, "images differ"),
        ({"outputs": {**WANTED.outputs, "1 sidecar words": np.zeros(2, np.float32)}}, "1 vectors differ"),
        ({"collections": {**WANTED.collections, ("pixels", 1): {}}}, "pixels on node 1: 1 are lost"),
        ({"counts": {"pixels": (1, 2)}}, r"count \(1, 2\) points"),
        ({"thumbnails": frozenset()}, "thumbnails differ"),
        ({"strays": ("x.parquet",)}, "a stray file"),
        ({"doubles": ("1 in meta",)}, "several slices"),
    ],
)
def test_whatever_is_not_as_undisturbed_is_told(change: dict[str, Any], told: str) -> None:
    assert differences(WANTED, WANTED) == []
    found = differences(replace(WANTED, **change), WANTED)
    assert len(found) == 1
    assert re.search(told, found[0])


def played(monkeypatch: pytest.MonkeyPatch, outcomes: list[rounds.Round]) -> list[str]:
    stages = ["begin", "discover", "start", "embed", "embed", "load", "promote", "done"]
    peace = rounds.Undisturbed(WANTED, [float(n) for n in range(len(stages))], stages)
    monkeypatch.setattr(rounds, "undisturbed", lambda _: peace)
    monkeypatch.setattr(rounds, "play", lambda *_: outcomes.pop(0))
    return rounds.run_rounds(CLUSTER, [1], lambda _: ("worker",))


def test_a_round_that_killed_nobody_is_played_again_and_fails_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = played(monkeypatch, [rounds.Round(["missed"]) for _ in range(3)])
    assert wrong == ["seed 1: nothing was killed", "worker was to die and never did"]
    assert played(monkeypatch, [rounds.Round(["missed"]), rounds.Round(["worker"], ["worker"])]) == []


def test_a_difference_fails_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    assert played(monkeypatch, [rounds.Round(["worker"], ["worker"], ["images differ"])]) == ["seed 1: images differ"]


def test_every_kind_is_first_in_one_of_six_rounds() -> None:
    assert {rounds.kinds_of(seed)[0] for seed in range(len(rounds.KINDS))} == set(rounds.KINDS)
