"""Training on captions with a measurement on held-out pictures.

The held-out tenth of the captioned pictures is chosen by their outputs' hash, so that it does not depend on their order. The
figure is whether each held-out caption finds its picture among all captioned ones, by the bridge alone, before and after. Then
the bridge is trained once more on all of them, so the figure belongs to a bridge that saw nine tenths.
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
from lodestone.spaces.bridge_arrays import Array, BridgeInputs
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.training.bridge import MINIMUM_FROM_NOTHING, BridgeSettings, TrainingReport, train_bridge
from lodestone.training.classes import ClassPairs

HELD_OUT_SHARE: Final = 0.1
FEWEST_HELD_OUT: Final = 10  # with fewer held-out pictures the figure would be chance, so all pictures are used for training
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
    inputs: BridgeInputs | None = None,
) -> tuple[BridgeWeights, TrainingReport]:
    """Train, measure on held-out pictures, and train on all pictures.

    Args:
        outputs: n pictures' outputs.
        texts: (m, d) vectors of the captions.
        owner: (m,) row of the picture that each text belongs to.
        base: The bridge to update; None to train from nothing.
        classes: As for `train_bridge`.
        seed: As for `train_bridge`.
        settings: As for `train_bridge`.
        inputs: As for `train_bridge`.

    Returns:
        The weights trained on all pairs, and the report with the held-out figures (None where too few pictures have captions).

    Raises:
        InvalidRequestError: `train_bridge` refuses the pairs.
    """
    started = time.perf_counter()
    before = after = None
    rows = np.unique(owner)
    held_out_rows = _held_out(outputs, rows)
    is_held_out = np.isin(owner, held_out_rows)
    lowest = MINIMUM_FROM_NOTHING if base is None else 1
    if len(held_out_rows) >= FEWEST_HELD_OUT and len(rows) - len(held_out_rows) >= lowest:
        trial, _ = train_bridge(
            outputs,
            texts[~is_held_out],
            owner[~is_held_out],
            base=base,
            classes=classes,
            seed=seed,
            settings=settings,
            inputs=inputs,
        )
        gallery = outputs.take(rows)
        truth = np.searchsorted(rows, owner[is_held_out])
        after = _recall(trial, gallery, texts[is_held_out], truth)
        before = _recall(base, gallery, texts[is_held_out], truth) if base is not None else None
    else:
        held_out_rows, is_held_out = held_out_rows[:0], np.zeros(len(owner), bool)
    weights, report = train_bridge(
        outputs, texts, owner, base=base, classes=classes, seed=seed, settings=settings, inputs=inputs
    )
    return weights, replace(
        report,
        seconds=time.perf_counter() - started,
        held_out=len(held_out_rows),
        queries=int(is_held_out.sum()),
        gallery=len(rows) if len(held_out_rows) else 0,
        before=before,
        after=after,
    )


def _held_out(outputs: BackboneOutputs, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the rows whose hash is below the share; pictures with equal outputs are held out together."""
    keys = sorted(outputs)
    limit = int(HELD_OUT_SHARE * 2**32)

    def number(row: int) -> int:
        return int.from_bytes(hashlib.sha256(b"".join(outputs[key][row].tobytes() for key in keys)).digest()[:4], "big")

    return np.array([row for row in rows if number(int(row)) < limit], np.intp)


def _recall(weights: BridgeWeights, gallery: BackboneOutputs, texts: Array, truth: NDArray[np.intp]) -> float:
    scores = weights.texts(texts) @ weights.pictures(gallery).T
    return float((first_ranks(scores, truth) <= _DEPTH).mean())
