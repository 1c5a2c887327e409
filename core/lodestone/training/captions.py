"""How good is what these captions teach? Trains on them, and measures on a part that is set aside first.

The held-out tenth of the captioned pictures is chosen by their outputs' hash, so that it does not depend on their
order. Measured is whether each held-out caption finds its picture among all captioned ones, by the bridge alone, before
and after. Then the bridge is trained once more on all of them: the figure is of a bridge that saw nine tenths.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import BackboneOutputs
from lodestone.evaluation.metrics import first_ranks
from lodestone.spaces.bridge_arrays import Array
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.training.bridge import MINIMUM_FROM_NOTHING, BridgeSettings, TrainingReport, train_bridge
from lodestone.training.classes import ClassPairs

HELD_OUT_SHARE: Final = 0.1
FEWEST_HELD_OUT: Final = 10  # held-out pictures; with fewer, a figure would be chance, and all pictures are better trained on
_DEPTH: Final = 10


def fit_bridge(
    outputs: BackboneOutputs,
    texts: Array,
    owner: NDArray[np.intp],
    *,
    base: BridgeWeights | None = None,
    classes: ClassPairs | None = None,
    seed: int = 0,
    settings: BridgeSettings | None = None,
) -> tuple[BridgeWeights, TrainingReport]:
    """Train, measure on held-out pictures, train on all.

    Args:
        outputs: n pictures' outputs.
        texts: (m, d) vectors of the captions.
        owner: (m,) row of the picture that each text belongs to.
        base: The bridge to update; None to train from nothing.
        classes: See `train_bridge`.
        seed: See `train_bridge`.
        settings: See `train_bridge`.

    Returns:
        The weights trained on all pairs, and the report with the held-out figures (None where too few pictures have
        captions).

    Raises:
        InvalidRequestError: see `train_bridge`.
    """
    started = time.perf_counter()
    before = after = None
    rows = np.unique(owner)
    held = _held_out(outputs, rows)
    asked = np.isin(owner, held)
    least = MINIMUM_FROM_NOTHING if base is None else 1
    if len(held) >= FEWEST_HELD_OUT and len(rows) - len(held) >= least:
        trial, _ = train_bridge(outputs, texts[~asked], owner[~asked], base=base, classes=classes, seed=seed, settings=settings)
        gallery = outputs.take(rows)
        truth = np.searchsorted(rows, owner[asked])
        after = _recall(trial, gallery, texts[asked], truth)
        before = _recall(base, gallery, texts[asked], truth) if base is not None else None
    else:
        held, asked = held[:0], np.zeros(len(owner), bool)
    weights, report = train_bridge(outputs, texts, owner, base=base, classes=classes, seed=seed, settings=settings)
    return weights, replace(
        report,
        seconds=time.perf_counter() - started,
        held_out=len(held),
        queries=int(asked.sum()),
        gallery=len(rows) if len(held) else 0,
        before=before,
        after=after,
    )


def _held_out(outputs: BackboneOutputs, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """The rows whose hash is below the share; pictures with equal outputs are held out together."""
    keys = sorted(outputs)
    limit = int(HELD_OUT_SHARE * 2**32)

    def number(row: int) -> int:
        return int.from_bytes(hashlib.sha256(b"".join(outputs[key][row].tobytes() for key in keys)).digest()[:4], "big")

    return np.array([row for row in rows if number(int(row)) < limit], np.intp)


def _recall(weights: BridgeWeights, gallery: BackboneOutputs, texts: Array, truth: NDArray[np.intp]) -> float:
    scores = weights.texts(texts) @ weights.pictures(gallery).T
    return float((first_ranks(scores, truth) <= _DEPTH).mean())
