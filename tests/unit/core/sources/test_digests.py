"""Sets of digests against Python's own sets, over names that are added in both ways."""

from __future__ import annotations

import random

import pytest

from lodestone.sources.digests import Digests


def test_digests_agree_with_a_set_however_names_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lodestone.sources.digests._RECENT", 8)
    rng = random.Random(11)
    digests, names, count = Digests(), set[str](), 0
    for _ in range(2_000):
        name = f"{rng.randrange(400)}.jpg"
        if rng.random() < 0.2:
            more = [f"{rng.randrange(400)}.jpg" for _ in range(rng.randrange(3))]
            digests.add(more)
            names.update(more)
            count += len(more)
        else:
            is_new = name not in names
            assert digests.add_if_new(name) is is_new
            names.add(name)
            count += is_new
        if rng.random() < 0.05:
            asked = [f"{rng.randrange(500)}.jpg" for _ in range(rng.randrange(5))]
            assert digests.hold(asked).tolist() == [one in names for one in asked]
        assert len(digests) == count


def test_an_empty_set_holds_nothing() -> None:
    assert Digests().hold(["a", "b"]).tolist() == [False, False]
