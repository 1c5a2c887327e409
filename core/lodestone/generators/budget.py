"""What may a query's guides cost, and what is left of it? Money is reserved before an engine is asked: none is overspent."""

from __future__ import annotations

import math
from decimal import Decimal


class Budget:
    """What one query may spend. Decimal, because three times 0.1 must fit into 0.3.

    Args:
        limit: In the unit of the engines' `cost`; None for no limit.
    """

    def __init__(self, limit: float | None) -> None:
        self._left = None if limit is None or math.isinf(limit) else _exact(limit)
        self._spent = Decimal(0)

    @property
    def spent(self) -> float:
        """Reserved and not given back."""
        return float(self._spent)

    def reserve(self, pictures: int, *, cost: float) -> int:
        """How many of `pictures` at `cost` each can be paid for; their price is reserved."""
        price = _exact(cost)
        if price <= 0:
            return pictures
        # multiplied, not divided: a huge limit by a tiny price has more digits than a Decimal counts with
        affordable = pictures
        while affordable and self._left is not None and affordable * price > self._left:
            affordable -= 1
        self._take(affordable * price)
        return affordable

    def give_back(self, pictures: int, *, cost: float) -> None:
        """The engine did not charge for so many of what was reserved."""
        self._take(-pictures * _exact(cost))

    def _take(self, amount: Decimal) -> None:
        self._spent += amount
        if self._left is not None:
            self._left -= amount


def _exact(amount: float) -> Decimal:
    return Decimal(str(amount))
