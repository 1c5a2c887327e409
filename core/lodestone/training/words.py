"""Training of the words that a bridge knows one by one (spaces/learnt_words.py), from the noun phrases of captions.

Each word is a ridge regression on the bridge's own vectors of the training pictures: 1 for those whose captions have the word
or its plural, 0 for the others. The targets are many and the pictures the same, so it is one system of equations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from lodestone.spaces.bridge_arrays import Array, unit
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.spaces.learnt_words import LearntWords
from lodestone.training.phrases import PhrasePairs

FEWEST_PICTURES: Final = 10  # whose captions must have a word
_PENALTY: Final = 1.0  # of the ridge, where pictures' vectors have length 1; both were chosen on the validation part


def learn_words(weights: BridgeWeights, components: Array, phrases: PhrasePairs) -> LearntWords | None:
    """Return the words that a bridge learns from its training pictures; None where no word is in enough captions.

    Args:
        weights: The bridge; its own words do not count.
        components: (n, k) principal components of the pictures.
        phrases: Phrases of their captions: bare in the first template, as photos of them in the second.
    """
    has = np.zeros((len(components), phrases.texts.shape[1]), bool)
    has[phrases.owner, phrases.singular[phrases.phrase]] = True
    kept = np.flatnonzero(has.sum(axis=0) >= FEWEST_PICTURES)
    if len(kept) == 0:
        return None
    bare, templated = phrases.texts[0, kept], phrases.texts[1, kept]
    pictures = _centred(weights.from_components(components))
    labels = has[:, kept].astype(np.float32)
    vectors = _ridge(pictures, labels - labels.mean(axis=0))
    # A text that is the word shall count half, the word half: both have the same spread of scores over the pictures.
    usual = np.median((pictures @ replace(weights, words=None).texts(bare).T).std(axis=0))
    spread = np.maximum((pictures @ vectors).std(axis=0), np.finfo(np.float32).tiny)
    return LearntWords(
        texts=unit(bare).T.copy(),
        vectors=(vectors * (usual / spread)).astype(np.float32),
        shift=(templated - bare).mean(axis=0),
    )


def _centred(rows: Array) -> Array:
    centred: Array = rows - rows.mean(axis=0)
    return centred


def _ridge(pictures: Array, targets: Array) -> Array:
    """Return the (dim, targets) weights that predict (n, targets) from (n, dim), both centred."""
    inner = (pictures.T @ pictures).astype(np.float64) + _PENALTY * np.eye(pictures.shape[1])
    solved: Array = np.linalg.solve(inner, pictures.T @ targets).astype(np.float32)
    return solved
