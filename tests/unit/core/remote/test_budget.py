"""The budget of a query: what can be paid for is reserved, and what was not charged comes back."""

from __future__ import annotations

import pytest

from lodestone.remote.budget import Budget


def test_three_times_a_tenth_fits_into_three_tenths() -> None:
    budget = Budget(0.3)
    assert [budget.reserve(1, cost=0.1) for _ in range(4)] == [1, 1, 1, 0]
    budget.give_back(2, cost=0.1)
    assert budget.reserve(5, cost=0.1) == 2
    assert budget.spent == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("limit", "cost", "reserved"),
    [(1.0, 0.3, 3), (0.0, 0.01, 0), (0.0, 0.0, 5), (None, 0.3, 5), (float("inf"), 0.3, 5), (1e308, 1e-9, 5), (1.5, 0.3, 5)],
)
def test_as_much_is_reserved_as_can_be_paid_for(limit: float | None, cost: float, reserved: int) -> None:
    budget = Budget(limit)
    assert budget.reserve(5, cost=cost) == reserved
    assert budget.spent == pytest.approx(reserved * cost)
