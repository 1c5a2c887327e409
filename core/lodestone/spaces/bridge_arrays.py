"""Parts of a bridge in plain NumPy: its inputs, its towers, and what it keeps of its training pairs for updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import BackboneOutputs, OutputKey

Array = NDArray[np.float32]

BACKBONES: Final = ("efficientnet-lite0", "efficientnet-lite2")
TEXT_ENCODER: Final = "minilm"


@dataclass(frozen=True, slots=True)
class BridgeInputs:
    """Names what a bridge reads.

    Attributes:
        backbones: Image models whose features it reads.
        classifiers: Those of them whose class probabilities it reads too; at least one.
        text_encoder: Text encoder whose vectors it reads.
    """

    backbones: tuple[str, ...] = BACKBONES
    classifiers: tuple[str, ...] = BACKBONES
    text_encoder: str = TEXT_ENCODER

    @property
    def required(self) -> tuple[OutputKey, ...]:
        """Return the backbone outputs that it reads, in the order of their columns."""
        features = tuple(OutputKey(name, "features") for name in self.backbones)
        return features + tuple(OutputKey(name, "probabilities") for name in self.classifiers)


def picture_columns(outputs: BackboneOutputs, inputs: BridgeInputs | None = None) -> Array:
    """Return the input columns of n pictures: (n, columns) float32.

    The columns are all features, then the square root of the mean probabilities. The root spreads small probabilities, which
    hold most of what a classifier says about a scene.

    Args:
        outputs: The pictures' outputs.
        inputs: What the bridge reads; None for what the bridge of the profile `embedded` reads.

    Raises:
        KeyError: a backbone's output is missing.
    """
    reads = inputs or BridgeInputs()
    features = [outputs[OutputKey(name, "features")].astype(np.float32) for name in reads.backbones]
    total = np.sum([outputs[OutputKey(name, "probabilities")].astype(np.float32) for name in reads.classifiers], axis=0)
    return np.hstack([*features, np.sqrt(np.maximum(total, 0) / len(reads.classifiers))])


def standardised(columns: Array, mean: Array, spread: Array) -> Array:
    """Return (n, columns) minus their mean, divided by their spread, float32."""
    scaled: Array = ((columns - mean) / spread).astype(np.float32, copy=False)
    return scaled


def unit(rows: NDArray[Any]) -> Array:
    """Return the rows scaled to length 1; a row of zeros stays as it is."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: Array = (rows / np.maximum(norms, np.finfo(np.float32).tiny)).astype(np.float32, copy=False)
    return scaled


@dataclass(frozen=True, slots=True)
class Tower:
    """Computes one head of the two-tower model: x -> x line + relu(x up + a) down + b, scaled to length 1.

    Attributes:
        line: (d, out) weights of the direct path.
        up: (d, hidden) weights into the hidden layer.
        up_bias: (hidden,) bias of the hidden layer.
        down: (hidden, out) weights out of the hidden layer.
        bias: (out,) bias of the output.
    """

    line: Array
    up: Array
    up_bias: Array
    down: Array
    bias: Array

    def __call__(self, rows: Array) -> Array:
        """Return the head's vectors of (n, d) rows: (n, out) float32, L2-normalised."""
        hidden = np.maximum(rows @ self.up + self.up_bias, 0)
        return unit(rows @ self.line + hidden @ self.down + self.bias)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Holds the sums over training pairs that the ridge needs, so that pairs can be added exactly.

    The sums run over pictures x (principal components, with a constant 1 as last column) and targets y (mean text vector of a
    picture).

    Attributes:
        gram: (k + 1, k + 1) sum of x x'.
        cross: (k + 1, d) sum of x y'.
        weight: Sum of the pairs' weights.
    """

    gram: Array
    cross: Array
    weight: float

    @classmethod
    def of(cls, pictures: Array, targets: Array, weights: Array | None = None) -> Statistics:
        """Return the sums over (n, k) pictures and (n, d) targets, each pair counted `weights` (n,) times."""
        x = np.hstack([pictures, np.ones((len(pictures), 1), np.float32)])
        w = np.ones(len(x), np.float32) if weights is None else weights.astype(np.float32)
        return cls(x.T @ (x * w[:, None]), (x * w[:, None]).T @ targets, float(w.sum()))

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(self.gram + other.gram, self.cross + other.cross, self.weight + other.weight)

    def scaled(self, factor: float) -> Statistics:
        """Return the sums of the same pairs, each counted `factor` times."""
        return Statistics(self.gram * factor, self.cross * factor, self.weight * factor)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Holds averages that replace the training pairs when towers are updated; no picture or caption can be read from them.

    Attributes:
        pictures: (m, k) mean principal components of m groups of pictures.
        texts: (m, d) mean text vector of each group.
        picture_spread: (k,) standard deviation of pictures in a group.
        text_spread: (d,) standard deviation of texts in a group.
        counts: (m,) size of each group.
    """

    pictures: Array
    texts: Array
    picture_spread: Array
    text_spread: Array
    counts: Array
