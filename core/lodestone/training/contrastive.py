"""Contrastive loss of weighted similarities with its derivatives (MUST, equation 6), and Adam's steps (Kingma and Ba, 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
_DECAYS: Final = (0.9, 0.999)


@dataclass(frozen=True, slots=True)
class ContrastiveTerms:
    """Terms of the loss, one a pair of an anchor and a right object.

    Attributes:
        positive: Features of the right objects (`JointPairs.features`), (terms, modalities) each.
        negative: Features of the wrong ones, (all, modalities) each, term by term.
        starts: (terms,) where a term's wrong objects begin.
        lengths: (terms,) how many there are, at least 1.
    """

    positive: tuple[Values, Values]
    negative: tuple[Values, Values]
    starts: NDArray[np.intp]
    lengths: NDArray[np.intp]

    def loss(self, weights: Values, scale: float) -> tuple[float, Values, float]:
        """Return the mean loss, and its derivatives by the weights and by the scale.

        Args:
            weights: (modalities,) weights, at least 0.
            scale: What joint similarities are multiplied by.
        """
        right, by_right = _joint(self.positive, weights)
        wrong, by_wrong = _joint(self.negative, weights)
        top = np.maximum(np.maximum.reduceat(wrong, self.starts), right)
        powers = np.exp(scale * (wrong - np.repeat(top, self.lengths)))
        total = np.add.reduceat(powers, self.starts) + np.exp(scale * (right - top))
        loss = np.log(total) - scale * (right - top)
        share = powers / np.repeat(total, self.lengths)  # of each wrong object; the right one has the rest
        lost = np.add.reduceat(share, self.starts)
        count = len(self.lengths)
        by_weights = scale * (share @ by_wrong - lost @ by_right) / count
        by_scale = float(share @ (wrong - np.repeat(right, self.lengths))) / count
        return float(loss.mean()), by_weights, by_scale


class Adam:
    """Adam's moments of one vector of parameters.

    Args:
        count: Number of parameters.
        rate: Learning rate.
    """

    def __init__(self, count: int, rate: float) -> None:
        self._rate = rate
        self._means = [np.zeros(count), np.zeros(count)]
        self._taken = 0

    def step(self, gradient: Values) -> Values:
        """Return what to subtract from the parameters."""
        self._taken += 1
        for place, value in enumerate((gradient, gradient**2)):
            self._means[place] = self._means[place] + (1 - _DECAYS[place]) * (value - self._means[place])
        first, second = (mean / (1 - decay**self._taken) for mean, decay in zip(self._means, _DECAYS, strict=True))
        return np.asarray(self._rate * first / (np.sqrt(second) + 1e-8), np.float64)


def softmax(logits: Values) -> Values:
    """Return positive numbers that sum to 1."""
    powers = np.exp(logits - logits.max())
    return np.asarray(powers / powers.sum(), np.float64)


def _joint(features: tuple[Values, Values], weights: Values) -> tuple[Values, Values]:
    """Return (p,) joint similarities and their (p, modalities) derivatives by the weights; 0 with nothing to compare."""
    similarity, presence = features
    total = presence @ weights
    total = np.where(total > 0, total, 1.0)
    joint = (similarity @ weights) / total
    derivative = (similarity - joint[:, None] * presence) / total[:, None]
    return joint, derivative
