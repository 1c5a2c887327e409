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
from lodestone.indexing.progress import Meter, Progress, RunStage, silent
from lodestone.spaces.bridge_arrays import Array, BridgeInputs
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.training.bridge import BridgeSettings, TrainingReport, steps_of, train_bridge
from lodestone.training.classes import ClassPairs

HELD_OUT_SHARE: Final = 0.1
FEWEST_HELD_OUT: Final = 10  # with fewer held-out pictures the figure would be chance
FEWEST_MEASURED: Final = 100  # captioned pictures from which on a training is measured
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
    translations: Array | None = None,
    rival: BridgeWeights | None = None,
    progress: Progress = silent,
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
        translations: As for `train_bridge`.
        rival: Bridge that the result is compared with; None for `base`.
        progress: Called after each step of the training.

    Returns:
        The weights trained on all pairs, and the report with the held-out figures (None where fewer than `FEWEST_MEASURED`
        pictures have captions). Where the figure is worse than that of the rival, the weights are those of the measurement:
        nobody needs better ones.

    Raises:
        InvalidRequestError: `train_bridge` refuses the pairs.
    """
    started = time.perf_counter()
    before = after = None
    rows = np.unique(owner)
    measured = len(rows) >= FEWEST_MEASURED
    held_out_rows = _held_out(outputs, rows) if measured else rows[:0]
    is_held_out = np.isin(owner, held_out_rows)
    rival = base if rival is None else rival
    steps = [steps_of(len(rows) - len(held_out_rows), base=base, settings=settings)] if measured else []
    steps.append(steps_of(len(rows), base=base, settings=settings))
    meter = Meter(progress, RunStage.TRAIN, total=sum(steps))

    def train(of: NDArray[np.bool_]) -> tuple[BridgeWeights, TrainingReport]:
        return train_bridge(
            outputs,
            texts[of],
            owner[of],
            base=base,
            classes=classes,
            seed=seed,
            settings=settings,
            inputs=inputs,
            translations=translations,
            stepped=lambda: meter.add(1),
        )

    trial = None
    if measured:
        trial, trial_report = train(~is_held_out)
        gallery = outputs.take(rows)
        truth = np.searchsorted(rows, owner[is_held_out])
        after = _recall(trial, gallery, texts[is_held_out], truth)
        before = _recall(rival, gallery, texts[is_held_out], truth) if rival is not None else None
    if trial is not None and before is not None and after is not None and after < before:
        weights, report = trial, trial_report
    else:
        weights, report = train(np.ones(len(owner), bool))
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
    """Return the rows whose hash is below the share, at least ten; pictures with equal outputs are held out together."""
    keys = sorted(outputs)
    limit = int(HELD_OUT_SHARE * 2**32)

    def number(row: int) -> int:
        return int.from_bytes(hashlib.sha256(b"".join(outputs[key][row].tobytes() for key in keys)).digest()[:4], "big")

    numbers = np.array([number(int(row)) for row in rows], np.int64)
    least = np.sort(numbers)[FEWEST_HELD_OUT - 1] + 1
    return rows[numbers < max(limit, int(least))]


def _recall(weights: BridgeWeights, gallery: BackboneOutputs, texts: Array, truth: NDArray[np.intp]) -> float:
    scores = weights.texts(texts) @ weights.pictures(gallery).T
    return float((first_ranks(scores, truth) <= _DEPTH).mean())
