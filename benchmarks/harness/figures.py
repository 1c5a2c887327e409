"""Figures that benchmarks declare, and what was measured of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

TIME_UNITS: Final = frozenset({"s", "ms", "processor s", "processor ms"})


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that a benchmark measures.

    Attributes:
        name: Name in the report and in `floors.toml`.
        unit: Unit, such as `ms`, `MB`, `images/s`, `ratio`, `share` (of one) or `count`.
        peer: What the figure is compared with in the same run; empty where there is no peer.
    """

    name: str
    unit: str
    peer: str = ""

    @property
    def is_absolute_time(self) -> bool:
        """Return whether the figure is a time, which depends on the machine and so can have a goal but no floor."""
        return self.unit in TIME_UNITS


@dataclass(frozen=True, slots=True)
class Measurement:
    """The repetitions of a figure.

    Attributes:
        figure: What was measured.
        case: Which of several cases (a loader, a number of pictures, a kind of query); empty where there is one.
        runs: One value a repetition, at least one.
    """

    figure: Figure
    case: str
    runs: tuple[float, ...]

    @property
    def minimum(self) -> float:
        """Return the least value of all runs."""
        return min(self.runs)

    @property
    def median(self) -> float:
        """Return the median, which floors are compared with."""
        return statistics.median(self.runs)

    @property
    def maximum(self) -> float:
        """Return the greatest value of all runs."""
        return max(self.runs)

    def cells(self) -> list[str]:
        """Return the columns of `HEADING` for a table."""
        several = len(self.runs) > 1
        return [
            f"{self.figure.name}: {self.case}" if self.case else self.figure.name,
            self.figure.unit,
            written(self.median),
            written(self.minimum) if several else "",
            written(self.maximum) if several else "",
            str(len(self.runs)),
            self.figure.peer,
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the measurement as JSON values."""
        return {
            "figure": self.figure.name,
            "case": self.case,
            "unit": self.figure.unit,
            "peer": self.figure.peer,
            "min": self.minimum,
            "median": self.median,
            "max": self.maximum,
            "runs": len(self.runs),
        }


HEADING: Final = ("figure", "unit", "median", "min", "max", "runs", "compared with")


def written(value: float) -> str:
    """Return a number with three digits or, above a thousand, without decimals."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def figure_named(figures: Sequence[Figure], name: str) -> Figure:
    """Return the figure with this name.

    Raises:
        ValueError: no figure is called so.
    """
    for figure in figures:
        if figure.name == name:
            return figure
    raise ValueError(f"there is no figure {name!r}; known are {', '.join(repr(figure.name) for figure in figures) or 'none'}")
