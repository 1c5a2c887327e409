"""Benchmark of misspelt words: its slips, and the bridge that it trains where no cache has one."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from research.fits import quality
from research.studies.query_words import NoCaptions, ratio, slip, true_words

from lodestone.backbones.base import BackboneOutputs
from lodestone.config.profiles import find_profile
from lodestone.query.words.checker import QueryChecker
from lodestone.spaces.bridge_weights import BridgeWeights


@pytest.mark.parametrize("seed", range(20))
def test_a_slip_changes_one_word_by_one_letter(seed: int) -> None:
    text = "a brown horse by the old barn"
    before, after = text.split(), slip(text, random.Random(seed)).split()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) == 1
    old, new = changed[0]
    assert len(old) >= 3 and abs(len(old) - len(new)) <= 1


def test_at_most_one_in_a_hundred_true_words_is_changed() -> None:
    encoder = cast("Any", SimpleNamespace(name="minilm", languages=frozenset({"en"}), words=frozenset))
    checker = QueryChecker(encoder, NoCaptions)
    words = true_words()
    assert set(words) == {"american", "british", "brands", "dishes", "breeds", "compounds"}
    assert sum(map(len, words.values())) >= 800
    for kind, of_kind in words.items():
        changed = {word: text for word in of_kind if (text := checker.check(word).text) != word}
        assert len(changed) <= len(of_kind) / 100, (kind, changed)


def test_a_language_is_compared_with_the_first_one_over_the_same_queries() -> None:
    first, other = np.array([1.0, 1.0, 0.0, 1.0] * 25), np.array([1.0, 0.0, 0.0, 0.5] * 25)
    said = ratio(other, first)
    low, high = (float(part) for part in said[6:-1].split(", "))
    assert said.startswith("0.50 [") and 0.35 < low < 0.5 < high < 0.65
    assert ratio(first, first) == "1.00 [1.00, 1.00]"


def test_a_missing_bridge_is_trained_once_on_the_first_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained_on: list[Any] = []
    shipped = BridgeWeights.shipped()

    def train(outputs: Any, *_: Any, **__: Any) -> tuple[BridgeWeights, None]:
        trained_on.append(outputs)
        return shipped, None

    monkeypatch.setattr(quality, "train_bridge", train)
    monkeypatch.setattr(quality, "class_pairs", lambda *_, **__: None)
    monkeypatch.setattr(quality, "classifiers", tuple)
    monkeypatch.setattr(quality, "short_texts", lambda *_: None)
    monkeypatch.setattr(quality, "read_by", lambda _, collection: collection)
    outputs = BackboneOutputs({})
    train_part = quality.Collection(outputs, np.zeros((0, 384)), np.zeros(0))
    data = cast("quality.Data", SimpleNamespace(train=train_part, classes=None, encoder=None, translations=None))
    for _ in range(2):
        bridge = quality.trained(data, find_profile("embedded"), seed=0, cache=tmp_path)
        assert bridge.version == shipped.version
    assert trained_on == [outputs]
