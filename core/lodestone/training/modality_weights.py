"""Learning of the weights of modalities from queries and the objects that are right for them (MUST, section VI).

The loss is the paper's contrastive one (equation 6) over joint similarities IP: for an anchor, one of its right objects, and N
wrong ones,

    -log(exp(b * IP(right)) / (exp(b * IP(right)) + sum over N of exp(b * IP(wrong))))

The paper's squares are free, so their sum acts as the factor b here, which is learnt beside weights that sum to 1. A fixed b of
1 (`temperature=1`) is what equation 6 gives for normalised squares. Cosines lie within 2 of each other, so its gradients are
weak. Weights are a softmax, so none is negative. For given wrong objects and nothing missing, the loss is convex in b times the
weights.

Wrong objects are found by search under the current weights, round by round (equation 5), among all objects that are not right
for the anchor: with several right ones, all of them are left out. Two things keep the weights from swinging between two kinds
of wrong objects: those of earlier rounds are kept, and an anchor's first search is also made by each modality alone. Without
them the weights of made tasks ran to one modality and back; with them they settle in two rounds. What is learnt is chosen, and
learning is stopped, by pairs that were held out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np

from lodestone.composed.weights import ModalityWeights
from lodestone.errors import InvalidRequestError
from lodestone.training.contrastive import Adam, ContrastiveTerms, softmax
from lodestone.training.joint_pairs import JointPairs, RowIds, Weights

FEWEST: Final = 20
"""Anchors that it takes: half of them are held out at most, and fewer than ten measure nothing."""
_MOST_HELD_OUT: Final = 512
_MOST_POSITIVES: Final = 8
_START: Final = 10.0
"""Factor b at the beginning."""


@dataclass(frozen=True, slots=True)
class LearningOptions:
    """How weights are learnt.

    Attributes:
        k: Length of the result list whose recall is measured.
        negatives: Wrong objects an anchor and round.
        hard: Whether they are found by search under the current weights; else they are drawn at random.
        learning_rate: Adam's, of the logarithms of the weights.
        steps: Steps of Adam a round.
        rounds: Rounds at most.
        patience: Rounds without a better figure after which learning stops.
        anchors: Anchors that are searched a round.
        held_out: Share of the anchors that is held out, at most 512 of them.
        temperature: 1 / b, fixed; None for a learnt one.
        seed: Makes the held-out pairs, the order of the anchors and random wrong objects repeatable.

    Raises:
        InvalidRequestError: a value is out of range.
    """

    k: int = 10
    negatives: int = 10
    hard: bool = True
    learning_rate: float = 0.05
    steps: int = 50
    rounds: int = 20
    patience: int = 3
    anchors: int = 512
    held_out: float = 0.2
    temperature: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        counts = (self.k, self.negatives, self.steps, self.rounds, self.patience, self.anchors)
        if min(counts) < 1 or not 0 < self.learning_rate <= 1 or not 0 < self.held_out <= 1 / 2:
            raise InvalidRequestError(
                "an option of learning is out of range",
                hint="counts are at least 1, the learning rate is in (0, 1] and the held-out share in (0, .5]",
            )
        if self.temperature is not None and not 0 < self.temperature <= 100:
            raise InvalidRequestError(f"the temperature is {self.temperature!r}", hint="it is in (0, 100]")


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """State after one round: the loss on the anchors' pools, and the figures of the held-out pairs.

    Attributes:
        round: Number of the round; 0 is the beginning, with equal weights.
        weights: Modality -> weight.
        loss: Mean loss of the pooled anchors; NaN at the beginning.
        recall: Mean recall@k of the held-out anchors.
        reciprocal: Mean reciprocal rank of the held-out anchors.
        changed: Most that a weight changed in this round.
    """

    round: int
    weights: ModalityWeights
    loss: float
    recall: float
    reciprocal: float
    changed: float


@dataclass(frozen=True, slots=True)
class WeightsReport:
    """Reports what learning found.

    Attributes:
        weights: The chosen weights.
        curve: The validation curve, in the order of the rounds.
        chosen: Round whose weights were chosen.
        anchors: Anchors that were learnt from.
        held_out: Anchors that were held out.
        objects: Objects that were searched.
        k: Length of the result list.
        recall: Mean recall@k of the held-out anchors under the chosen weights.
        equal: The same under equal weights.
        single: Modality -> the same under this modality alone.
        rival: The same under the weights that the learnt ones are to replace.
        is_better: Whether the mean reciprocal rank of the held-out anchors is at least that of the weights to replace.
        seconds: Time that it took.
    """

    weights: ModalityWeights
    curve: tuple[CurvePoint, ...]
    chosen: int
    anchors: int
    held_out: int
    objects: int
    k: int
    recall: float
    equal: float
    single: dict[str, float]
    rival: float
    is_better: bool
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a JSON-serialisable dict."""
        curve = [{**asdict(point), "weights": dict(point.weights)} for point in self.curve]
        for point in curve:
            point["loss"] = None if np.isnan(point["loss"]) else point["loss"]
        return {**asdict(self), "weights": dict(self.weights), "curve": curve}


def learn_weights(
    pairs: JointPairs,
    options: LearningOptions | None = None,
    *,
    rival: ModalityWeights | None = None,
    told: Callable[[CurvePoint], None] = lambda _: None,
) -> WeightsReport:
    """Learn the weights of the modalities of some pairs.

    Args:
        pairs: Queries and right objects; a modality may be absent from some of them.
        options: How to learn; None for the defaults.
        rival: Weights that the learnt ones are to replace; None for equal ones.
        told: Called after each round.

    Raises:
        InvalidRequestError: there are fewer than `FEWEST` queries.
    """
    started = time.perf_counter()
    options = options or LearningOptions()
    if len(pairs) < FEWEST:
        raise InvalidRequestError(
            f"{len(pairs)} queries are too few to learn weights from: it takes {FEWEST}, as some are held out to choose by",
            hint="give more pairs; without learnt weights all modalities count alike",
        )
    rng = np.random.default_rng(options.seed)
    shuffled = rng.permutation(len(pairs)).astype(np.intp)
    held = min(max(round(len(pairs) * options.held_out), FEWEST // 2), _MOST_HELD_OUT)
    validation, training = pairs.take(shuffled[:held]), pairs.take(shuffled[held:])
    learner = _Learner(training, options, rng)
    curve: list[CurvePoint] = []
    loss = float("nan")
    while True:
        recall, reciprocal = _quality(validation, learner.weights, options.k)
        now = ModalityWeights.of(dict(zip(pairs.modalities, learner.weights.tolist(), strict=True)))
        changed = max(abs(now[name] - curve[-1].weights[name]) for name in now) if curve else 1.0
        curve.append(CurvePoint(len(curve), now, loss, recall, reciprocal, changed))
        told(curve[-1])
        best = max(curve, key=lambda point: (point.reciprocal, point.recall))
        stale = len(curve) - 1 - best.round
        if len(pairs.modalities) == 1 or len(curve) > options.rounds or stale >= options.patience:
            break
        loss = learner.round()
    count = len(pairs.modalities)
    replaced = rival or ModalityWeights.equal(pairs.modalities)
    baselines = [*np.eye(count), np.full(count, 1 / count), [replaced[name] for name in pairs.modalities]]
    found = validation.search(np.array(baselines), options.k)
    *single, equal, before = found.recall.mean(axis=1).tolist()
    return WeightsReport(
        best.weights,
        tuple(curve),
        best.round,
        len(training),
        held,
        pairs.objects.count,
        options.k,
        best.recall,
        equal,
        dict(zip(pairs.modalities, single, strict=True)),
        before,
        bool(best.reciprocal >= found.reciprocal[-1].mean()),
        time.perf_counter() - started,
    )


def simplex_grid(modalities: int, steps: int) -> Weights:
    """Return all weightings whose weights are multiples of 1 / steps: (w, modalities), for a grid search."""
    bars = combinations(range(steps + modalities - 1), modalities - 1)
    edges = np.array([(-1, *places, steps + modalities - 1) for places in bars])
    grid: Weights = (np.diff(edges, axis=1) - 1) / steps
    return grid


def search_grid(pairs: JointPairs, steps: int, k: int) -> tuple[ModalityWeights, float]:
    """Return the weighting of a grid with the best mean recall@k of all pairs, and that recall; the baseline of learning."""
    grid = simplex_grid(len(pairs.modalities), steps)
    found = pairs.search(grid, k)
    recall, reciprocal = found.recall.mean(axis=1), found.reciprocal.mean(axis=1)
    best = max(range(len(grid)), key=lambda place: (recall[place], reciprocal[place]))
    return ModalityWeights.of(dict(zip(pairs.modalities, grid[best].tolist(), strict=True))), float(recall[best])


def _quality(pairs: JointPairs, weights: Weights, k: int) -> tuple[float, float]:
    found = pairs.search(weights[None], k)
    return float(found.recall.mean()), float(found.reciprocal.mean())


class _Learner:
    """Weights being learnt, and the wrong objects found so far."""

    def __init__(self, pairs: JointPairs, options: LearningOptions, rng: np.random.Generator) -> None:
        self._pairs = pairs
        self._options = options
        self._rng = rng
        modalities = len(pairs.modalities)
        scale = _START if options.temperature is None else 1 / options.temperature
        self._state = np.append(np.zeros(modalities), np.log(scale))  # logarithms of the weights, and of b
        self._adam = Adam(modalities + 1, options.learning_rate)
        self._queue: RowIds = np.empty(0, np.intp)
        self._pool: dict[int, set[int]] = {}
        self._right = {query: self._few(rows) for query, rows in enumerate(pairs.positives)}

    @property
    def weights(self) -> Weights:
        """Return the current weights, which sum to 1."""
        return softmax(self._state[:-1])

    def round(self) -> float:
        """Find wrong objects for some anchors, take `steps` steps on all found so far, and return the loss before the last."""
        batch = self._next_anchors()
        for anchor, rows in zip(batch.tolist(), self._wrong(batch), strict=True):
            self._pool.setdefault(anchor, set()).update(row for row in rows.tolist() if row >= 0)
        terms = self._terms()
        loss = 0.0
        for _ in range(self._options.steps):
            loss = self._step(terms)
        return loss

    def _next_anchors(self) -> RowIds:
        if len(self._queue) == 0:
            self._queue = self._rng.permutation(len(self._pairs)).astype(np.intp)
        batch, self._queue = self._queue[: self._options.anchors], self._queue[self._options.anchors :]
        return batch

    def _wrong(self, batch: RowIds) -> RowIds:
        options, pairs = self._options, self._pairs.take(batch)
        if options.hard:
            known = all(anchor in self._pool for anchor in batch.tolist())
            weightings = self.weights[None] if known else np.concatenate([self.weights[None], np.eye(len(self.weights))])
            return pairs.hardest(weightings, options.negatives)
        drawn = self._rng.integers(0, pairs.objects.count, (len(batch), options.negatives))
        for row, right, ignored in zip(drawn, pairs.positives, pairs.ignored, strict=True):
            row[np.isin(row, right) | np.isin(row, ignored)] = -1
        return drawn

    def _terms(self) -> ContrastiveTerms:
        """Return the features of each (anchor, right object) and of the anchor's wrong objects."""
        owners, right, wrong, spans = [], [], [], [0]
        for anchor, pool in self._pool.items():
            if pool:
                for row in self._right[anchor]:
                    owners.append(anchor)
                    right.append(row)
                    wrong.append(list(pool))
                    spans.append(spans[-1] + len(pool))
        anchors = np.array(owners, np.intp)
        lengths = np.diff(spans)
        negatives = np.array([row for rows in wrong for row in rows], np.intp)
        positive = self._pairs.features(anchors, np.array(right, np.intp))
        negative = self._pairs.features(np.repeat(anchors, lengths), negatives)
        return ContrastiveTerms(positive, negative, np.array(spans[:-1], np.intp), lengths)

    def _few(self, rows: RowIds) -> list[int]:
        if len(rows) > _MOST_POSITIVES:
            rows = self._rng.choice(rows, _MOST_POSITIVES, replace=False)
        few: list[int] = rows.tolist()
        return few

    def _step(self, terms: ContrastiveTerms) -> float:
        if len(terms.lengths) == 0:
            return 0.0  # everything is right: there is nothing to learn from
        weights, scale = self.weights, float(np.exp(self._state[-1]))
        loss, by_weight, by_scale = terms.loss(weights, scale)
        gradient = np.append(weights * (by_weight - weights @ by_weight), scale * by_scale)  # through softmax and exp
        if self._options.temperature is not None:
            gradient[-1] = 0
        self._state -= self._adam.step(gradient)
        return loss
