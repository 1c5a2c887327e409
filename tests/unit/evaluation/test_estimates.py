"""The interval of a mean over queries: repeatable, around the mean, and narrower with more queries."""

from __future__ import annotations

import numpy as np
import pytest

from lodestone_eval.compare import bootstrap


def test_bootstrap_is_repeatable_covers_the_mean_and_narrows():
    rng = np.random.default_rng(0)
    few, many = rng.random(50), rng.random(5000)
    assert bootstrap(few) == bootstrap(few)
    for values in (few, many):
        estimate = bootstrap(values)
        assert estimate.mean == pytest.approx(values.mean())
        assert estimate.low < estimate.mean < estimate.high
    assert bootstrap(many).high - bootstrap(many).low < (bootstrap(few).high - bootstrap(few).low) / 4
    with pytest.raises(ValueError, match="needs values"):
        bootstrap(np.array([]))
