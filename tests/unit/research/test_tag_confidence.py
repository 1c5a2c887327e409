"""The fit of the confidence of tags: a threshold above which most tags are right, and no fit to too few answers."""

import numpy as np
import pytest
from research.fits.tag_confidence import JudgedAnswer, fit_confidence

from lodestone.errors import InvalidRequestError


def answers(count: int, seed: int = 0) -> list[JudgedAnswer]:
    """The further ahead of the next, the likelier right."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        lead = rng.random(3)
        right = rng.random(3) < lead**0.5
        evidence = np.column_stack([rng.random(3), lead, np.zeros(3), rng.random(3), np.full(3, 0.5)])
        found.append(JudgedAnswer(evidence, right, float(right[0])))
    return found


def test_confidence_threshold_keeps_most_tags_right() -> None:
    model, report = fit_confidence(answers(600), precision=0.9)
    held = answers(600, seed=1)
    scores = np.concatenate([model.intercept + one.evidence @ np.array(list(model.weights.values())) for one in held])
    right = np.concatenate([one.right for one in held])

    assert report.pearson > 0.3
    assert report.tagged > 0.1
    assert right[scores >= model.threshold].mean() > 0.85
    assert right[scores >= model.threshold].mean() > right.mean() + 0.1


def test_confidence_without_any_sure_answer_tags_nothing() -> None:
    rng = np.random.default_rng(0)
    noise = [JudgedAnswer(rng.random((3, 5)), np.zeros(3, bool), 0.0) for _ in range(50)]

    model, report = fit_confidence(noise)

    assert model.threshold == 1
    assert report.tagged == 0


def test_too_few_judged_answers_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="too few"):
        fit_confidence(answers(10))
