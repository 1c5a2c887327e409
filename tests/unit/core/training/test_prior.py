"""The learnt prior: fitted, kept and refitted with the bridge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from tests.support.home import open_runtime
from tests.support.pairs import make_pairs, recall_at_10

from lodestone.backbones.base import OutputKey
from lodestone.errors import ConfigurationError, InvalidRequestError
from lodestone.generators.engines.prior_weights import PriorWeights, SpacePrior
from lodestone.spaces.bridge_arrays import unit
from lodestone.training.bridge import BridgeSettings, train_bridge
from lodestone.training.prior import FEWEST_ALONE, PriorSettings, fit_space, refit
from lodestone.training.towers import TowerSettings

DIM = 24
SMALL = BridgeSettings(components=48, penalty=100.0, groups=32, towers=TowerSettings(hidden=64, out=32, epochs=10, batch=64))


def pairs(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Text vectors, and pictures that are a fixed linear function of them with noise in two directions."""
    world = np.random.default_rng(7)
    slope, directions = world.normal(size=(16, DIM)), np.linalg.qr(world.normal(size=(DIM, 2)))[0].T
    rng = np.random.default_rng(seed)
    texts = unit(rng.normal(size=(n, 16)).astype(np.float32))
    return texts, unit(texts @ slope + 2 * rng.normal(size=(n, 2)) @ directions)


@dataclass
class Told:
    """A space that pictures are given in."""

    name: str
    vectors: np.ndarray
    requires: tuple[OutputKey, ...] = ()

    def warm_up(self) -> None: ...

    def project(self, outputs: object) -> np.ndarray:
        return self.vectors


def test_the_mean_finds_pictures_of_unseen_texts() -> None:
    prior = fit_space(*pairs())
    texts, pictures = pairs(200, seed=1)
    assert recall_at_10(unit(prior.means(texts)) @ pictures.T, np.arange(200)) > 0.6  # chance is .05


def test_draws_differ_as_much_as_pictures_of_a_text_do() -> None:
    texts, pictures = pairs(2000)
    prior = fit_space(texts, pictures, settings=PriorSettings(rank=DIM))
    rng = np.random.default_rng(0)
    drawn = np.stack([prior.draw(texts[:1], rng)[0] for _ in range(400)])
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1, atol=1e-5)
    left = pictures - prior.means(texts)
    assert drawn.var(0).sum() == pytest.approx(left.var(0).sum(), rel=0.3)
    cold = SpacePrior(prior.centre, prior.slope, prior.bias, 0 * prior.spread)
    np.testing.assert_allclose(cold.draw(texts[:5], rng), unit(prior.means(texts[:5])), atol=1e-6)


def test_a_pair_that_weighs_nothing_teaches_nothing() -> None:
    texts, pictures = pairs()
    wrong = np.vstack([pictures, np.roll(pictures, 7, axis=0)])
    counted = np.repeat([1.0, 0.0], len(texts)).astype(np.float32)
    one, other = fit_space(texts, pictures), fit_space(np.vstack([texts, texts]), wrong, weights=counted)
    np.testing.assert_allclose(one.means(texts), other.means(texts), atol=1e-3)


def test_saved_weights_load_with_their_version(tmp_path) -> None:
    weights = PriorWeights({"bridge-1.5": fit_space(*pairs())}, provenance={"data": "made up"})
    path = weights.save(tmp_path / "new")
    assert path.name == f"prior-{weights.version}.safetensors"
    loaded = PriorWeights.load(path)
    assert (loaded.version, loaded.provenance) == (weights.version, {"data": "made up"})
    np.testing.assert_array_equal(loaded.spaces["bridge-1.5"].slope, weights.spaces["bridge-1.5"].slope)


def test_what_ships_belongs_to_the_spaces_that_ship(tmp_path) -> None:
    shipped = PriorWeights.shipped()
    with open_runtime(tmp_path) as runtime:
        assert set(shipped.spaces) == {one.collection for one in runtime.projections().values()}
    assert "research use" in shipped.provenance["licence_notice"]


def test_damaged_and_missing_files_say_how_to_get_another(tmp_path) -> None:
    damaged = tmp_path / "prior.safetensors"
    damaged.write_bytes(b"nothing of the kind")
    for path in (damaged, tmp_path / "missing"):
        with pytest.raises(ConfigurationError) as raised:
            PriorWeights.load(path)
        assert "train bridge" in raised.value.hint


@pytest.mark.parametrize("break_it", ["empty", "uneven", "nan"])
def test_what_makes_no_pairs_is_refused(break_it: str) -> None:
    texts, pictures = pairs(20)
    if break_it == "empty":
        texts, pictures = texts[:0], pictures[:0]
    elif break_it == "uneven":
        texts = texts[:-1]
    else:
        pictures[3, 1] = np.nan
    with pytest.raises(InvalidRequestError):
        fit_space(texts, pictures)


@pytest.fixture(scope="module")
def trained():
    outputs, texts, owner = make_pairs(300)
    return train_bridge(outputs, texts, owner, settings=SMALL)[0]


def test_a_few_captions_do_not_make_the_bridges_prior_forget(trained) -> None:
    outputs, texts, owner = make_pairs(3, seed=5)
    prior = refit(trained, {"bridge-2": Told("bridge", outputs)}, outputs, texts, owner)
    unseen, asked, truth = make_pairs(200, seed=6)
    assert list(prior.spaces) == ["bridge-2"]
    found = recall_at_10(unit(prior.spaces["bridge-2"].means(asked)) @ trained.pictures(unseen).T, truth)
    alone = fit_space(texts, trained.pictures(outputs)[owner])
    assert found > 0.3 > recall_at_10(unit(alone.means(asked)) @ trained.pictures(unseen).T, truth)


def test_a_space_without_memory_gets_a_prior_from_many_pictures_only(trained) -> None:
    for count, expected in ((FEWEST_ALONE, ["other-1"]), (FEWEST_ALONE - 1, [])):
        outputs, texts, owner = make_pairs(count, captions=1)
        told = Told("other", unit(np.random.default_rng(0).normal(size=(count, 8))))
        assert list(refit(trained, {"other-1": told}, outputs, texts, owner).spaces) == expected
    told.requires = (OutputKey("clip", "features"),)
    outputs, texts, owner = make_pairs(FEWEST_ALONE, captions=1)
    assert not refit(trained, {"other-1": told}, outputs, texts, owner).spaces
