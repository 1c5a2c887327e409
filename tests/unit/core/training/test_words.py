"""Words that the captions of ten pictures have are learnt one by one, and survive an update of their bridge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.support.pairs import TEXT_DIM, make_pairs

from lodestone.backbones.base import BackboneOutputs
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.training.bridge import BridgeSettings, train_bridge
from lodestone.training.phrases import FEWEST_PICTURES, PhrasePairs, learn_words
from lodestone.training.towers import TowerSettings

SMALL = BridgeSettings(
    components=48,
    penalty=100.0,
    groups=32,
    members=1,
    towers=TowerSettings(hidden=16, out=16, epochs=4, batch=64, update_steps=20, rehearsed=64),
)
PICTURES = 240
LEARNT, PLURAL, RARE = range(3)


def shown() -> np.ndarray:
    """Return which of the pictures show the thing: a third, which the outputs tell and the texts do not."""
    return np.arange(PICTURES) % 3 == 0


def outputs_with_thing() -> BackboneOutputs:
    outputs, _, _ = make_pairs(PICTURES)
    mark = np.random.default_rng(5)
    return BackboneOutputs(
        {
            key: (rows + np.where(shown()[:, None], 0.3 * np.abs(mark.normal(size=rows.shape[1])), 0)).astype(rows.dtype)
            if key.output == "features"
            else rows
            for key, rows in outputs.items()
        }
    )


def phrases() -> PhrasePairs:
    """A word of 60 pictures in the singular and of 20 others in the plural, and one of nine."""
    rng = np.random.default_rng(1)
    bare = rng.normal(size=(3, TEXT_DIM))
    bare /= np.linalg.norm(bare, axis=1, keepdims=True)
    templated = bare + 0.03 * rng.normal(size=TEXT_DIM)
    owners = np.flatnonzero(shown())
    phrase = np.concatenate([np.full(60, LEARNT), np.full(20, PLURAL), np.full(FEWEST_PICTURES - 1, RARE)])
    owner = np.concatenate([owners, np.arange(1, FEWEST_PICTURES)])
    return PhrasePairs(np.stack([bare, templated]).astype(np.float32), phrase, owner, np.array([LEARNT, LEARNT, RARE]))


@pytest.fixture(scope="module")
def bridge() -> BridgeWeights:
    _, texts, owner = make_pairs(PICTURES)
    return train_bridge(outputs_with_thing(), texts, owner, phrases=phrases(), settings=SMALL)[0]


def test_a_word_of_enough_pictures_is_learnt_together_with_its_plural(bridge: BridgeWeights) -> None:
    words = bridge.words
    assert words is not None and len(words) == 1
    np.testing.assert_allclose(words.texts[:, 0], phrases().texts[0, LEARNT], atol=1e-6)
    np.testing.assert_allclose(words.shift, phrases().texts[1, LEARNT] - phrases().texts[0, LEARNT], atol=1e-6)


def test_the_word_alone_finds_what_shows_it(bridge: BridgeWeights) -> None:
    pictures = bridge.pictures(outputs_with_thing())
    for template in range(2):
        query = phrases().texts[template, [LEARNT]]
        query /= np.linalg.norm(query)
        first = {
            name: shown()[np.argsort(-(one.texts(query) @ pictures.T)[0])[:80]].mean()
            for name, one in (("words", bridge), ("none", replace(bridge, words=None)))
        }
        assert first["words"] > first["none"] + 0.15


def test_word_and_text_count_the_same(bridge: BridgeWeights) -> None:
    assert bridge.words is not None
    pictures, plain = bridge.pictures(outputs_with_thing()), replace(bridge, words=None)
    spread = (pictures @ plain.texts(phrases().texts[0, [LEARNT]]).T).std()
    assert (pictures @ bridge.words.vectors).std() == pytest.approx(spread, rel=1e-3)


def test_a_word_is_the_ridge_of_its_pictures_with_penalty_one(bridge: BridgeWeights) -> None:
    assert bridge.words is not None
    pictures = bridge.pictures(outputs_with_thing()).astype(np.float64)
    pictures -= pictures.mean(axis=0)
    has = shown() - shown().mean()
    expected = np.linalg.solve(pictures.T @ pictures + np.eye(bridge.dim), pictures.T @ has)
    assert np.corrcoef(bridge.words.vectors[:, 0], expected)[0, 1] > 0.9999


def test_the_words_of_the_bridge_itself_do_not_count(bridge: BridgeWeights) -> None:
    components = bridge.components(outputs_with_thing())
    again = learn_words(bridge, components, phrases())
    assert again is not None and bridge.words is not None
    np.testing.assert_allclose(again.vectors, bridge.words.vectors, atol=1e-4)


def test_no_word_is_learnt_from_nine_pictures(bridge: BridgeWeights) -> None:
    rare = phrases()
    kept = rare.phrase == RARE
    few = replace(rare, phrase=rare.phrase[kept], owner=rare.owner[kept])
    assert learn_words(bridge, bridge.components(outputs_with_thing()), few) is None
    one_more = replace(few, phrase=np.append(few.phrase, RARE), owner=np.append(few.owner, PICTURES - 1))
    learnt = learn_words(bridge, bridge.components(outputs_with_thing()), one_more)
    assert learnt is not None and len(learnt) == 1


def test_an_update_keeps_the_words(bridge: BridgeWeights) -> None:
    outputs, texts, owner = make_pairs(80, seed=3)
    updated, _ = train_bridge(outputs, texts, owner, base=bridge, phrases=phrases().of(np.arange(80)), settings=SMALL)
    assert updated.words is bridge.words is not None
    pictures = outputs_with_thing()
    before, after = (one.pictures(pictures) @ bridge.words.vectors[:, 0] for one in (bridge, updated))
    assert np.corrcoef(before, after)[0, 1] > 0.9
