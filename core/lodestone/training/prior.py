"""Fitting of the prior over picture vectors, which draws guides for the words of a query (generators/engines/prior_weights.py).

The prior is the reverse of the bridge: a ridge regression from text vectors to a space's picture vectors gives the mean, and
what it leaves unexplained gives a covariance of low rank. Draws are scaled to length 1 like every vector of the space. A prior
belongs to one version of a space (its collection), because vectors of two versions are never compared. In the file arrays are
float16; arithmetic is float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import InvalidRequestError
from lodestone.generators.engines.prior_weights import PriorWeights, SpacePrior
from lodestone.spaces.bridge_arrays import Array, unit
from lodestone.training.towers import sample

if TYPE_CHECKING:
    from lodestone.backbones.base import BackboneOutputs
    from lodestone.spaces.base import Projection
    from lodestone.spaces.bridge_weights import BridgeWeights

FEWEST_ALONE: Final = 200  # with fewer captioned pictures, a space without memory of earlier pairs gets no prior
REHEARSED: Final = 4096  # pairs drawn from a bridge's rehearsal


@dataclass(frozen=True, slots=True)
class PriorSettings:
    """Holds the settings of fitting a prior, chosen on the validation part (research/fits/prior.py).

    Attributes:
        penalty: The ridge's penalty: the number of pairs of unit variance that the assumption of no relation counts as.
        rank: Number of directions of the residual covariance that are kept.
        temperature: Factor on their standard deviations when drawing.
    """

    penalty: float = 100.0
    rank: int = 64
    temperature: float = 1.0


def fit_space(
    texts: Array, pictures: Array, *, weights: Array | None = None, settings: PriorSettings | None = None
) -> SpacePrior:
    """Return the prior of one space; deterministic.

    Args:
        texts: (n, d) float32 text vectors, one per pair.
        pictures: (n, dim) float32 vectors in the space of the pictures that they describe, L2-normalised.
        weights: (n,) weight of each pair; None for 1.
        settings: None for the defaults.

    Raises:
        InvalidRequestError: no pairs, or vectors that do not fit each other or are not finite.
    """
    chosen = settings or PriorSettings()
    if not len(texts) or len(texts) != len(pictures):
        raise InvalidRequestError(
            f"{len(texts)} texts and {len(pictures)} pictures make no pairs to fit a prior on",
            hint="give a --captions table, sidecar .txt files or XMP",
        )
    if not np.isfinite(texts).all() or not np.isfinite(pictures).all():
        raise InvalidRequestError("a picture's or a text's vector is not finite", hint="index them again")
    share = np.ones(len(texts)) if weights is None else weights.astype(np.float64)
    total = share.sum()
    x, y = texts.astype(np.float64), pictures.astype(np.float64)
    centre, bias = share @ x / total, share @ y / total
    x, y = x - centre, y - bias
    gram = (x * share[:, None]).T @ x
    # Text vectors have length 1 over d dimensions, so a component's variance is about 1 / d; the penalty counts such pairs.
    slope = np.linalg.solve(gram + chosen.penalty / x.shape[1] * np.eye(len(gram)), (x * share[:, None]).T @ y)
    residuals = y - x @ slope
    values, vectors = np.linalg.eigh((residuals * share[:, None]).T @ residuals / total)
    rank = min(chosen.rank, len(texts), len(values))
    kept, directions = np.maximum(values[::-1][:rank], 0), vectors[:, ::-1][:, :rank]
    largest = np.abs(directions).argmax(0)
    # The sign of an eigenvector is arbitrary, so it is fixed here.
    directions = directions * np.sign(directions[largest, np.arange(rank)])
    spread = chosen.temperature * np.sqrt(kept)[:, None] * directions.T
    return SpacePrior(*(_half(array) for array in (centre, slope, bias, spread)))


def _half(array: NDArray[np.float64]) -> Array:
    """Return the array as it will be stored, in row order, which safetensors expects."""
    rounded: Array = np.ascontiguousarray(array, np.float16).astype(np.float32)
    return rounded


def refit(
    weights: BridgeWeights,
    projections: Mapping[str, Projection],
    outputs: BackboneOutputs,
    texts: Array,
    owner: NDArray[np.intp],
) -> PriorWeights:
    """Return the priors that go with a newly trained bridge.

    The bridge's own prior is fitted on its pairs and on its rehearsal of earlier ones, so that a few captions do not make it
    forget. A space without a rehearsal is fitted when there are `FEWEST_ALONE` captioned pictures, and their outputs.

    Args:
        weights: The bridge.
        projections: Collection -> projection of every space that has no prior yet, the bridge's among them.
        outputs: Outputs of the captioned pictures.
        texts: (m, d) vectors of their captions.
        owner: (m,) row of the picture that each caption describes.
    """
    spaces = {}
    for collection, projection in projections.items():
        if projection.name == "bridge":
            spaces[collection] = _fit_with_memory(weights, outputs, texts, owner)
        elif len(np.unique(owner)) >= FEWEST_ALONE and set(projection.requires) <= set(outputs):
            projection.warm_up()
            spaces[collection] = fit_space(texts, projection.project(outputs)[owner])
    return PriorWeights(spaces, weights.text_encoder, {**weights.provenance, "fitted_with": weights.version})


def _fit_with_memory(weights: BridgeWeights, outputs: BackboneOutputs, texts: Array, owner: NDArray[np.intp]) -> SpacePrior:
    # The rehearsal holds the new pairs too, as averages, so the number of earlier pairs is its count less the new pictures'.
    rehearsal = weights.rehearsal
    pictures, rehearsed_texts = sample(rehearsal, REHEARSED, np.random.default_rng(0), rehearsal.counts)
    described = len(np.unique(owner))
    earlier = max(float(rehearsal.counts.sum()) - described, 0.0)
    share = np.concatenate([np.full(len(owner), described / len(owner)), np.full(REHEARSED, earlier / REHEARSED)])
    vectors = np.vstack([weights.pictures(outputs)[owner], weights.from_components(pictures)])
    return fit_space(np.vstack([texts, unit(rehearsed_texts)]), vectors, weights=share.astype(np.float32))
