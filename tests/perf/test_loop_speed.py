"""The guide loop's own arithmetic stays small beside what it is made of: ratios within one run, never absolute times."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import pytest

from lodestone.query.guides.outliers import judge_guides, local_outlier_factors, warm_up
from lodestone.retrieval.fusion import FUSIONS, RankedList

SPACES = [f"space-{number}" for number in range(6)]
WEIGHTS = dict.fromkeys(SPACES, 1.0)


def vectors_of(count: int, *, seed: int, offset: float = 0.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {space: (rng.standard_normal((count, 512)) + offset).astype(np.float32) for space in SPACES}


def ratio(work: Callable[[], object], peer: Callable[[], object], *, repeats: int = 15) -> float:
    """Median processor time of `work` over that of `peer`, which other processes do not lengthen; taken in turns."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats + 2):
        for times, one in zip(taken, (work, peer), strict=True):
            started = time.process_time()
            one()
            times.append(time.process_time() - started)
    return statistics.median(taken[0][2:]) / statistics.median(taken[1][2:])


def test_judging_nine_guides_costs_no_more_than_a_few_plain_lof_fits_a_space() -> None:
    from sklearn.neighbors import LocalOutlierFactor  # every process that collects this file would wait two seconds

    guides, background = vectors_of(9, seed=0, offset=1.0), vectors_of(256, seed=1)

    def plain() -> None:
        for rows in guides.values():
            LocalOutlierFactor(n_neighbors=4).fit(rows)

    assert ratio(lambda: judge_guides(guides, WEIGHTS, background=background), plain) < 8


@pytest.mark.nightly
@pytest.mark.slow
def test_judging_sixteen_guides_costs_little_more_than_its_maps() -> None:
    warm_up()
    guides, background = vectors_of(16, seed=0, offset=1.0), vectors_of(256, seed=1)

    def maps() -> None:
        for space, rows in guides.items():
            local_outlier_factors(rows, background[space][:32])

    assert ratio(lambda: judge_guides(guides, WEIGHTS, background=background), maps, repeats=7) < 2


@pytest.mark.parametrize("name", sorted(FUSIONS))
def test_fusing_costs_no_more_than_counting_the_candidates_in_python(name: str) -> None:
    rng = np.random.default_rng(0)
    ids = [f"{number:032x}" for number in range(600)]
    lists = [
        RankedList(
            f"prior/{guide}",
            space,
            1 / 6,
            tuple(ids[row] for row in rng.permutation(600)[:60]),
            np.sort(rng.random(60).astype(np.float32))[::-1],
        )
        for guide in range(9)
        for space in SPACES
    ]

    def counted() -> list[tuple[str, float]]:
        scores: dict[str, float] = {}
        for one in lists:
            for rank, image_id in enumerate(one.ids, 1):
                scores[image_id] = scores.get(image_id, 0.0) + one.weight / rank
        return sorted(scores.items(), key=lambda item: (-item[1], item[0]))

    assert ratio(lambda: FUSIONS[name](lists), counted) < 4
