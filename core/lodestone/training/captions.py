"""Training on captions with a measurement on held-out pictures.

The held-out tenth of the captioned pictures is chosen by their outputs' hash, so that it does not depend on their order, from
those that the bridge before was not trained on: of the others it would remember the captions. The figure is whether each
held-out caption finds its picture among all captioned ones, by the bridge alone, before and after. Then the bridge is trained
once more on all of them, so the figure belongs to a bridge that saw nine tenths. Where the bridge before knows nearly all
pictures, no fair tenth is left: then both bridges are measured on what both were trained on, and a difference within chance
counts as none.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import BackboneOutputs
from lodestone.indexing.progress import Meter, Progress, RunStage, silent
from lodestone.retrieval.metrics import first_ranks
from lodestone.spaces.bridge_arrays import Array, BridgeInputs
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.training.bridge import BridgeSettings, TrainingReport, steps_of, train_bridge
from lodestone.training.classes import ClassPairs
from lodestone.training.phrases import PhrasePairs

HELD_OUT_SHARE: Final = 0.1
FEWEST_HELD_OUT: Final = 10  # with fewer held-out pictures the figure would be chance
FEWEST_MEASURED: Final = 100  # captioned pictures from which on a training is measured
_DEPTH: Final = 10
_NORMAL_95: Final = 1.96  # standard errors to either side


def fit_bridge(
    outputs: BackboneOutputs,
    texts: Array,
    owner: NDArray[np.intp],
    *,
    base: BridgeWeights | None = None,
    phrases: PhrasePairs | None = None,
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
        phrases: As for `train_bridge`.
        classes: As for `train_bridge`.
        seed: As for `train_bridge`.
        settings: As for `train_bridge`.
        inputs: As for `train_bridge`.
        translations: As for `train_bridge`.
        rival: Bridge that the result is compared with; None for `base`.
        progress: Called after each step of the training.

    Returns:
        The weights trained on all pairs, and the report with the held-out figures (None where fewer than `FEWEST_MEASURED`
        pictures have captions). Where the figure is worse than that of the rival on pictures that are new to both, the weights
        are those of the measurement: nobody needs better ones.

    Raises:
        InvalidRequestError: `train_bridge` refuses the pairs.
    """
    started = time.perf_counter()
    rows = np.unique(owner)
    rival = base if rival is None else rival
    if len(rows) < FEWEST_MEASURED:
        held_out_rows, remembered = rows[:0], False
    else:
        fresh = rows if rival is None else rows[~rival.has_seen(outputs.take(rows))]
        remembered = len(fresh) < FEWEST_HELD_OUT
        held_out_rows = _held_out(outputs, rows if remembered else fresh)
    is_held_out = np.isin(owner, held_out_rows)
    tried = len(held_out_rows) > 0 and not remembered
    steps = [steps_of(len(rows) - len(held_out_rows), base=base, settings=settings)] if tried else []
    steps.append(steps_of(len(rows), base=base, settings=settings))
    meter = Meter(progress, RunStage.TRAIN, total=sum(steps))

    def train(of: NDArray[np.bool_]) -> tuple[BridgeWeights, TrainingReport]:
        return train_bridge(
            outputs,
            texts[of],
            owner[of],
            base=base,
            phrases=phrases,
            classes=classes,
            seed=seed,
            settings=settings,
            inputs=inputs,
            translations=translations,
            stepped=lambda: meter.add(1),
        )

    def measured(weights: BridgeWeights, report: TrainingReport) -> TrainingReport:
        gallery = outputs.take(rows)
        truth = np.searchsorted(rows, owner[is_held_out])
        after = _hits(weights, gallery, texts[is_held_out], truth)
        before = None if rival is None else _hits(rival, gallery, texts[is_held_out], truth)
        return replace(
            report,
            held_out=len(held_out_rows),
            queries=len(truth),
            gallery=len(rows),
            before=None if before is None else float(before.mean()),
            after=float(after.mean()),
            remembered=remembered,
            margin=_margin(after - before) if remembered and before is not None else 0.0,
        )

    if tried:
        weights, report = train(~is_held_out)
        report = measured(weights, report)
        if report.is_better:
            figures = report
            weights, report = train(np.ones(len(owner), bool))
            report = replace(figures, pictures=report.pictures, texts=report.texts, loss=report.loss, version=report.version)
    else:
        weights, report = train(np.ones(len(owner), bool))
        report = measured(weights, report) if remembered else report
    return weights, replace(report, seconds=time.perf_counter() - started)


def _held_out(outputs: BackboneOutputs, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the rows whose hash is below the share, at least ten; pictures with equal outputs are held out together."""
    keys = sorted(outputs)
    limit = int(HELD_OUT_SHARE * 2**32)

    def number(row: int) -> int:
        return int.from_bytes(hashlib.sha256(b"".join(outputs[key][row].tobytes() for key in keys)).digest()[:4], "big")

    numbers = np.array([number(int(row)) for row in rows], np.int64)
    least = np.sort(numbers)[FEWEST_HELD_OUT - 1] + 1
    return rows[numbers < max(limit, int(least))]


def _hits(weights: BridgeWeights, gallery: BackboneOutputs, texts: Array, truth: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return 1 for each text whose picture is among the first ten, else 0."""
    scores = weights.texts(texts) @ weights.pictures(gallery).T
    return (first_ranks(scores, truth) <= _DEPTH).astype(np.float64)


def _margin(differences: NDArray[np.float64]) -> float:
    """Return half of the 95 % interval of the mean of paired differences, by the normal approximation."""
    return float(_NORMAL_95 * differences.std() / np.sqrt(len(differences)))
