"""Outlier filter: rejects guides that lie as far from their core as unrelated pictures lie from one another.

Guides are judged in each space apart. The scores are averaged with the spaces' weights (trust) and compared with one threshold
(NEEDLE, E.2). A guide's unlikeness in a space is its mean distance to the *core*: the half of the guides that is nearest to
their medoid. It is measured twice, and the smaller one counts: against the typical distance between pictures of the collection
(`background`), and against the typical distance between the guides themselves. So neither guides that are all much alike (a
generator's), nor a collection of a single topic, makes a guide look strange.

- `medoid`: just that; below 15 guides, and wherever there is no background.
- `umap_lof`: from 15 guides on. Guides and a few pictures of the background are laid out by UMAP, and the logarithm of the
  guides' local outlier factor on that map is added. UMAP of the guides alone finds nothing: it evens out local distances, so
  that a stranger lands as close to the others as they are to each other (benchmarks/query/outliers.py prints it).

Everything is deterministic by its seed. Never more than half of the guides are rejected; below 3 nothing is judged.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import InvalidRequestError

Rule = Literal["medoid", "umap_lof", "none"]
Vectors = NDArray[np.float32]
Values = NDArray[np.float64]

FEWEST_GUIDES: Final = 3  # of two, nobody can say which is the strange one
UMAP_FROM: Final = 15  # guides; below, a neighbourhood is most of the set
# Fitted on the validation part of Flickr8k (benchmarks/query/outliers.py --fit): what each way of measuring calls a stranger.
THRESHOLD: Final = 0.9  # distance to the core over the typical distance between pictures of the collection
_AMONG_GUIDES: Final = (1.0, 0.011)  # the same over the typical distance between guides: a + b * guides ...
_AMONG_MOST: Final = 16  # ... up to so many: the fewer they are, the more a stranger widens what is typical
_BESIDE_BACKGROUND: Final = 0.97  # share of that limit where the background has its say as well
_WITH_LOF: Final = 0.965  # the first, plus `_LOF_SHARE` times the logarithm of the local outlier factor
_LOF_SHARE: Final = 0.1
_LOF_MOST: Final = 2.0  # of the logarithm: on a map, far is far

_FEWEST_BACKGROUND: Final = 32  # pictures; fewer do not say how far apart strangers are
_BACKGROUND: Final = 128  # pictures at most
_ON_THE_MAP: Final = 32  # of these, laid out beside the guides
_SAME: Final = 1e-3  # nearer than this, a picture of the background is one of the guides
_LEAST_TYPICAL: Final = 0.25  # distance (cosine .97): guides nearer to each other than this are as good as the same

_NEIGHBOURS: Final = 15  # UMAP's own default, as are a and b (of min_dist .1; given, so that they are not fitted every time)
_CURVE: Final = {"a": 1.577, "b": 0.895}
_DIMENSIONS: Final = 2
_EPOCHS: Final = 50

# numba's fallback thread pool ends the process when two threads enter it: one map at a time.
_ONE_MAP: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class OutlierReport:
    """Judgement of g guides.

    Attributes:
        scores: (g,) float64, >= 0; above 1 is unlike the others. 0 for a guide that could not be judged.
        rejected: (g,) bool; never more than half of the guides that were judged.
        rule: Which rule judged.
        per_space: Space -> (g,) float64, the scores of that space alone, NaN where the guide has no vector.
    """

    scores: Values
    rejected: NDArray[np.bool_]
    rule: Rule
    per_space: Mapping[str, Values] = field(default_factory=dict)


def judge_guides(
    vectors: Mapping[str, Vectors],
    weights: Mapping[str, float],
    *,
    background: Mapping[str, Vectors] | None = None,
    threshold: float | None = None,
    seed: int = 0,
    maps: bool = True,
) -> OutlierReport:
    """Score guides and say which to leave out. Blocking: milliseconds; see `warm_up`.

    Args:
        vectors: Space -> (g, dim) float32, a row of NaN (or zeros) where a guide has none; the same guides in each.
        weights: Space -> how much it counts, >= 0 (trust times fitted weight); missing or 0: the space is not asked.
        background: Space -> (m, dim) float32, a sample of the collection's pictures (`Calibration.sample`).
        threshold: What counts as unlike, in typical distances of the collection, > 0; by default `THRESHOLD`.
        seed: Of UMAP.
        maps: Whether there is time for maps: the first in a process takes long. Without, the rule is `medoid` throughout.

    Raises:
        InvalidRequestError: a threshold or weight out of range, or spaces with different numbers of guides.
    """
    limit = THRESHOLD if threshold is None else threshold
    count = _check(vectors, weights, limit)
    per_space: dict[str, Values] = {}
    mapped = False
    for space in sorted(vectors):
        if weights.get(space, 0.0) > 0:
            units, present = _unit(vectors[space])
            if present.sum() >= FEWEST_GUIDES:
                unlike, by_map = _unlikeness(units[present], _around(background, space, units[present]), seed=seed, maps=maps)
                per_space[space] = np.full(count, np.nan)
                per_space[space][present] = unlike / limit
                mapped |= by_map
    if not per_space:
        return OutlierReport(np.zeros(count), np.zeros(count, bool), "none")
    scores, judged = _average(per_space, weights)
    return OutlierReport(scores, _strangest(scores, int(judged.sum()) // 2), "umap_lof" if mapped else "medoid", per_space)


def warm_up() -> None:
    """Import and compile UMAP and LOF, which takes 10 to 30 seconds on a new machine, before the first 15 guides come."""
    rng = np.random.default_rng(0)
    vectors, around = (rng.standard_normal((rows, 8)).astype(np.float32) for rows in (UMAP_FROM, _FEWEST_BACKGROUND))
    judge_guides({"space": vectors}, {"space": 1.0}, background={"space": around})


def local_outlier_factors(guides: Vectors, around: Vectors, *, seed: int = 0) -> Values:
    """Return (g,) float64 factors, > 0, about 1 for a guide among guides: LOF on a UMAP of guides and surroundings.

    Args:
        guides: (g, dim) float32, L2-normalised, g >= 4.
        around: (m, dim) float32, L2-normalised pictures to lay out beside them; may be empty, but see the module.
        seed: Of UMAP.
    """
    from sklearn.neighbors import LocalOutlierFactor

    rows = np.concatenate([guides, around])
    with _ONE_MAP, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about settings that are meant
        reducer = _umap().UMAP(
            n_neighbors=min(_NEIGHBOURS, len(rows) - 1),
            n_components=_DIMENSIONS,
            n_epochs=_EPOCHS,
            init=_principal(rows),
            metric="euclidean",  # of unit vectors: orders as cosine does, and has a fast path
            random_state=seed,
            n_jobs=1,
            **_CURVE,
        )
        places = reducer.fit_transform(rows)[: len(guides)]
    factors: Values = -LocalOutlierFactor(n_neighbors=len(guides) // 2).fit(places).negative_outlier_factor_
    return factors


@cache
def _umap() -> Any:  # noqa: ANN401 (a module without types)
    """Return UMAP's module. What is compiled here is cached on disk, for a fast start of the next process."""
    from umap import umap_

    for name in ("fast_knn_indices", "smooth_knn_dist", "compute_membership_strengths"):
        with suppress(AttributeError, RuntimeError):  # another release; no folder that numba may write to
            getattr(umap_, name).enable_caching()
    return umap_


def _principal(rows: Vectors) -> Vectors:
    """Return (n, 2) places where the map starts: the first principal components (`init="pca"` would take a model for it)."""
    left, sizes, _ = np.linalg.svd(rows - rows.mean(0), full_matrices=False)
    return np.asarray(left[:, :_DIMENSIONS] * sizes[:_DIMENSIONS], np.float32)


def _check(vectors: Mapping[str, Vectors], weights: Mapping[str, float], limit: float) -> int:
    """Return the number of guides."""
    if not (math.isfinite(limit) and limit > 0):
        raise InvalidRequestError(f"an outlier threshold is above 0, not {limit!r}", hint=f"the fitted one is {THRESHOLD}")
    for space, weight in weights.items():
        if not (math.isfinite(weight) and weight >= 0):
            raise InvalidRequestError(f"the weight of space {space!r} is {weight!r}", hint="weights are finite and >= 0")
    counts = {len(rows) for rows in vectors.values()}
    if len(counts) > 1:
        raise InvalidRequestError(
            f"spaces hold different numbers of guides: {sorted(counts)}", hint="give a row of NaN where a guide has no vector"
        )
    return counts.pop() if counts else 0


def _unit(rows: Vectors) -> tuple[Vectors, NDArray[np.bool_]]:
    """Return the rows scaled to length 1, and which of them are vectors at all."""
    lengths = np.linalg.norm(rows, axis=1)
    present = np.isfinite(lengths) & (lengths > 0)
    return np.asarray(rows / np.where(present, lengths, 1.0)[:, None], np.float32), present


def _around(background: Mapping[str, Vectors] | None, space: str, guides: Vectors) -> Vectors | None:
    """Return pictures of the collection that are not among the guides; None when there are too few."""
    if background is None or space not in background or len(background[space]) < _FEWEST_BACKGROUND:
        return None
    units, present = _unit(background[space][: _BACKGROUND + len(guides)])
    strangers = units[present]
    strangers = strangers[(strangers @ guides.T).max(1) < 1 - _SAME][:_BACKGROUND]
    return strangers if len(strangers) >= _FEWEST_BACKGROUND else None


def _unlikeness(guides: Vectors, around: Vectors | None, *, seed: int, maps: bool) -> tuple[Values, bool]:
    """Return (g,) scores in units of `THRESHOLD`, and whether a map took part."""
    apart = _distances(guides)
    to_core = _to_core(apart)
    limit = _AMONG_GUIDES[0] + _AMONG_GUIDES[1] * min(len(guides), _AMONG_MOST)
    among = to_core / max(_typical(apart), _LEAST_TYPICAL) * (THRESHOLD / limit)
    if around is None:
        return among, False
    among /= _BESIDE_BACKGROUND
    unlike = np.minimum(among, to_core / max(_typical(_distances(around)), _LEAST_TYPICAL))
    if len(guides) < UMAP_FROM or not maps:
        return unlike, False
    factors = local_outlier_factors(guides, around[:_ON_THE_MAP], seed=seed)
    stranger = _LOF_SHARE * np.clip(np.log(np.maximum(factors, 1.0)), 0.0, _LOF_MOST)
    return (unlike + stranger) * (THRESHOLD / _WITH_LOF), True


def _distances(units: Vectors) -> Values:
    return np.sqrt(np.maximum(0.0, 2.0 - 2.0 * (units @ units.T).astype(np.float64)))


def _typical(apart: Values) -> float:
    return float(np.median(apart[_pairs(len(apart))]))


@lru_cache(maxsize=16)
def _pairs(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows and columns of all pairs of different things, which are the same for every query."""
    first, second = np.triu_indices(count, 1)
    return first, second


def _to_core(apart: Values) -> Values:
    """Return the mean distance of each guide to the half of the guides that is nearest to their medoid, itself left out."""
    medoid = int(np.argmin(apart.sum(1)))
    core = np.argsort(apart[medoid], kind="stable")[: (len(apart) + 1) // 2]
    within = np.isin(np.arange(len(apart)), core)
    np.fill_diagonal(apart, 0.0)  # rounding leaves up to 1e-3 there
    return np.asarray(apart[:, core].sum(1) / (len(core) - within), np.float64)


def _average(per_space: Mapping[str, Values], weights: Mapping[str, float]) -> tuple[Values, NDArray[np.bool_]]:
    """Return the weighted mean over the spaces that hold a guide, else 0, and which guides any space holds."""
    scores = np.stack(list(per_space.values()))
    held = ~np.isnan(scores)
    counts = np.array([weights[space] for space in per_space])[:, None] * held
    judged = np.asarray(held.any(0), np.bool_)
    mean: Values = (np.nan_to_num(scores) * counts).sum(0) / np.where(judged, counts.sum(0), 1.0)
    return mean, judged


def _strangest(scores: Values, most: int) -> NDArray[np.bool_]:
    """Return which guides are above 1, and of these no more than `most`, those with the highest scores."""
    rejected = np.zeros(len(scores), bool)
    rejected[np.argsort(-scores, kind="stable")[:most]] = True
    return rejected & (scores > 1.0)
