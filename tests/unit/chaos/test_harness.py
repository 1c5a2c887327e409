"""The rounds of chaos notice what is wrong, and do not pass when nothing was killed."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from tests.chaos import rounds
from tests.chaos.cluster import ChaosCluster
from tests.chaos.state import State, differences, gaps

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


WHOLE = State(
    images={"a.jpg": ("1", "active", "h"), "b.jpg": ("2", "active", "i"), "bad.jpg": ("3", "failed", "j")},
    failures=(("bad.jpg", "truncated"),),
    outputs={key: np.ones(3, np.float32) for key in ("1", "2", "1 (meta)", "2 (meta)", "3 (meta)", "1 sidecar words")},
    collections={
        **{("pixels-0", node): {"1": np.ones(3, np.float32), "2": np.ones(3, np.float32)} for node in range(2)},
        **{("captions-0", node): {"1": np.ones(3, np.float32)} for node in range(2)},
    },
    counts={"pixels-0": (2, 2), "captions-0": (1, 1)},
    thumbnails=frozenset({"h.jpg", "i.jpg"}),
    strays=(),
    doubles=(),
)


def missing(state: State) -> list[str]:
    return gaps(state, pictures=2, bad=1, captioned=1, nodes=2)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"images": {}}, "images by state"),
        ({"failures": ()}, "failures: 0, not 1"),
        ({"outputs": {key: one for key, one in WHOLE.outputs.items() if key != "2"}}, "features: 1, not 2"),
        ({"outputs": {key: one for key, one in WHOLE.outputs.items() if key != "3 (meta)"}}, "meta: 2, not 3"),
        ({"outputs": {key: one for key, one in WHOLE.outputs.items() if "sidecar" not in key}}, "captions: 0, not 1"),
        ({"thumbnails": frozenset({"h.jpg"})}, "thumbnails: 1, not 2"),
        ({"collections": {**WHOLE.collections, ("pixels-0", 1): {}}}, "points in pixels on node 1: 0, not 2"),
        ({"collections": {place: one for place, one in WHOLE.collections.items() if place != ("captions-0", 0)}}, "nodes: "),
        ({"counts": {**WHOLE.counts, "captions-0": (1, 0)}}, r"counted in captions: \(1, 0\), not \(1, 1\)"),
    ],
)
def test_a_state_to_compare_with_is_full(change: dict[str, Any], told: str) -> None:
    assert missing(WHOLE) == []
    found = missing(replace(WHOLE, **change))
    assert len(found) == 1
    assert re.search(told, found[0])


def test_a_space_that_is_missing_everywhere_is_told() -> None:
    only = {place: one for place, one in WHOLE.collections.items() if place[0] == "captions-0"}
    assert missing(replace(WHOLE, collections=only, counts={"captions-0": (1, 1)})) == [
        "spaces: ['captions'], not ['captions', 'pixels']"
    ]
    assert missing(replace(WHOLE, collections={}, counts={})) == ["spaces: [], not ['captions', 'pixels']"]


STAGES = ["begin", "discover", "start", "embed", "embed", "load", "promote", "done"]
PEACE = rounds.Undisturbed(WANTED, [float(n) for n in range(len(STAGES))], STAGES)


def played(monkeypatch: pytest.MonkeyPatch, outcomes: list[rounds.Round]) -> list[str]:
    monkeypatch.setattr(rounds, "undisturbed", lambda _: PEACE)
    monkeypatch.setattr(rounds, "play", lambda *_: outcomes.pop(0))
    return rounds.run_rounds(CLUSTER, [1], lambda _: ("worker",))


def test_a_round_that_killed_nobody_is_played_again_and_fails_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = played(monkeypatch, [rounds.Round(["missed"]) for _ in range(3)])
    assert wrong == ["seed 1: nothing was killed", "worker was to die and never did"]
    assert played(monkeypatch, [rounds.Round(["missed"]), rounds.Round(["worker"], ["worker"])]) == []


def test_a_difference_fails_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    assert played(monkeypatch, [rounds.Round(["worker"], ["worker"], ["images differ"])]) == ["seed 1: images differ"]


def test_a_round_that_hangs_fails_with_its_stacks_and_ends_the_rounds(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    released = threading.Event()

    def hang(*_: object) -> rounds.Round:
        released.wait(180)
        return rounds.Round()

    monkeypatch.setattr(rounds, "undisturbed", lambda _: PEACE)
    monkeypatch.setattr(rounds, "play", hang)
    monkeypatch.setattr(rounds, "_ROUND_S", 0.2)
    assert rounds.run_rounds(CLUSTER, [1, 2], lambda _: ("worker",)) == ["seed 1: not finished after 0 s"]
    released.set()
    told = capfd.readouterr()
    assert "seed 1: FAILED: not finished after 0 s; 1 rounds are not played" in told.out
    assert " in hang" in told.err


def test_what_fails_in_a_round_fails_the_command() -> None:
    def fail() -> rounds.Round:
        raise AssertionError("not finished after 5 runs")

    with pytest.raises(AssertionError, match="after 5 runs"):
        rounds.within(60, fail)


def test_with_two_nodes_one_joins_and_one_leaves_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[rounds.Fault] = []

    def struck(*arguments: Any) -> rounds.Round:
        faults.extend(arguments[2])
        return rounds.Round(killed=[fault.kind for fault in arguments[2]])

    monkeypatch.setattr(rounds, "undisturbed", lambda _: PEACE)
    monkeypatch.setattr(rounds, "play", struck)
    assert rounds.run_rounds(CLUSTER, [1, 2], lambda _: rounds.NODE_CHANGES) == []
    assert sorted(fault.kind for fault in faults) == ["join", "join", "leave", "leave"]
    assert all(1 <= fault.step < len(PEACE.steps) for fault in faults)


def test_every_kind_is_first_in_one_of_six_rounds() -> None:
    assert {rounds.kinds_of(seed)[0] for seed in range(len(rounds.KINDS))} == set(rounds.KINDS)
