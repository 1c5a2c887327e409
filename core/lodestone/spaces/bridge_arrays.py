"""What are the parts of a bridge? Its inputs, its towers, and what it keeps of its training pairs for updates; plain NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import BackboneOutputs, OutputKey

Array = NDArray[np.float32]

BACKBONES: Final = ("efficientnet-lite0", "efficientnet-lite2")


def required_outputs(backbones: tuple[str, ...] = BACKBONES) -> tuple[OutputKey, ...]:
    """The backbone outputs that a bridge reads, in the order of its columns."""
    return tuple(OutputKey(b, "features") for b in backbones) + tuple(OutputKey(b, "probabilities") for b in backbones)


def picture_columns(outputs: BackboneOutputs, backbones: tuple[str, ...] = BACKBONES) -> Array:
    """Outputs of n pictures -> (n, columns) float32: all features, then the square root of the mean probabilities.

    The root spreads small probabilities, where most of what a classifier says about a scene stands.

    Raises:
        KeyError: a backbone's output is missing.
    """
    features = [outputs[OutputKey(b, "features")].astype(np.float32) for b in backbones]
    total = np.sum([outputs[OutputKey(b, "probabilities")].astype(np.float32) for b in backbones], axis=0)
    return np.hstack([*features, np.sqrt(np.maximum(total, 0) / len(backbones))])


def standardised(columns: Array, mean: Array, spread: Array) -> Array:
    """(n, columns) less their mean, over their spread, float32."""
    scaled: Array = ((columns - mean) / spread).astype(np.float32, copy=False)
    return scaled


def unit(rows: NDArray[Any]) -> Array:
    """Rows scaled to length 1; a row of zeros stays."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: Array = (rows / np.maximum(norms, np.finfo(np.float32).tiny)).astype(np.float32, copy=False)
    return scaled


@dataclass(frozen=True, slots=True)
class Tower:
    """One head of the two-tower model: x -> x line + relu(x up + a) down + b, scaled to length 1.

    Attributes:
        line: (d, out). up: (d, hidden). up_bias: (hidden,). down: (hidden, out). bias: (out,).
    """

    line: Array
    up: Array
    up_bias: Array
    down: Array
    bias: Array

    def __call__(self, rows: Array) -> Array:
        """(n, d) -> (n, out) float32, L2-normalised."""
        hidden = np.maximum(rows @ self.up + self.up_bias, 0)
        return unit(rows @ self.line + hidden @ self.down + self.bias)


@dataclass(frozen=True, slots=True)
class Statistics:
    """All that the ridge needs to know of the pairs it was trained on, so that pairs can be added exactly.

    Sums over pictures x (principal components, with a constant 1 as last column) and targets y (mean text vector of a
    picture).

    Attributes:
        gram: (k + 1, k + 1) sum of x x'. cross: (k + 1, d) sum of x y'. weight: Sum of the pairs' weights.
    """

    gram: Array
    cross: Array
    weight: float

    @classmethod
    def of(cls, pictures: Array, targets: Array, weights: Array | None = None) -> Statistics:
        """Sums over (n, k) pictures and (n, d) targets, each pair counted `weights` (n,) times."""
        x = np.hstack([pictures, np.ones((len(pictures), 1), np.float32)])
        w = np.ones(len(x), np.float32) if weights is None else weights.astype(np.float32)
        return cls(x.T @ (x * w[:, None]), (x * w[:, None]).T @ targets, float(w.sum()))

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(self.gram + other.gram, self.cross + other.cross, self.weight + other.weight)

    def scaled(self, factor: float) -> Statistics:
        """The same pairs, each counted `factor` times."""
        return Statistics(self.gram * factor, self.cross * factor, self.weight * factor)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Averages that stand in for the training pairs when towers are updated; no picture or caption can be read from them.

    Attributes:
        pictures: (m, k) mean principal components of m groups of pictures. texts: (m, d) mean text vector of each.
        picture_spread: (k,) standard deviation of pictures in a group. text_spread: (d,) of texts.
        counts: (m,) size of each group.
    """

    pictures: Array
    texts: Array
    picture_spread: Array
    text_spread: Array
    counts: Array
