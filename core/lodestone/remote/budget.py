"""Budget for one query's remote calls: money is reserved before a service is called, so that it is never overspent."""

from __future__ import annotations

import math
from decimal import Decimal


class Budget:
    """Money that one query may spend. It counts in Decimal, because three times 0.1 must fit into 0.3.

    Args:
        limit: Limit, in the unit of the prices; None for no limit.
    """

    def __init__(self, limit: float | None) -> None:
        self._left = None if limit is None or math.isinf(limit) else _exact(limit)
        self._spent = Decimal(0)

    @property
    def spent(self) -> float:
        """Return what is reserved and was not given back."""
        return float(self._spent)

    def reserve(self, items: int, *, cost: float) -> int:
        """Reserve the price of as many of `items` at `cost` each as can be paid for; return their number."""
        price = _exact(cost)
        if price <= 0:
            return items
        # Multiplied, not divided: a huge limit over a tiny price has more digits than a Decimal holds.
        affordable = items
        while affordable and self._left is not None and affordable * price > self._left:
            affordable -= 1
        self._take(affordable * price)
        return affordable

    def give_back(self, items: int, *, cost: float) -> None:
        """Release the reservation for items that the service did not charge for."""
        self._take(-items * _exact(cost))

    def _take(self, amount: Decimal) -> None:
        self._spent += amount
        if self._left is not None:
            self._left -= amount


def _exact(amount: float) -> Decimal:
    return Decimal(str(amount))
