"""Floors and goals of the figures, read from `benchmarks/floors.toml`.

A floor holds on every machine: it bounds a ratio to a peer of the same run, a count, a share, or memory. A goal is an absolute
time that was stated for one kind of machine. It is checked and printed in the same way, but a figure that is an absolute time
can have no floor: without the ratio to a peer, the time tells more about the machine than about the program.
"""

from __future__ import annotations

import operator
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.harness.figures import Figure, Measurement, figure_named, written

FLOORS: Final = Path(__file__).resolve().parents[1] / "floors.toml"
COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "at least": operator.ge,
    "at most": operator.le,
    "below": operator.lt,
}
_FIELDS: Final = ("benchmark", "figure", "comparison", "bound", "stated")
_OPTIONAL: Final = ("case", "peer", "machine")


@dataclass(frozen=True, slots=True)
class Floor:
    """A bound of one figure.

    Attributes:
        benchmark: Short name of the benchmark, such as `decode`.
        figure: Name of the figure that the benchmark records.
        comparison: One of `COMPARISONS`, between the median and the bound.
        bound: The bound, in the figure's unit.
        stated: Page or module where the bound was stated.
        case: The case that is bounded; empty: every case of the figure.
        peer: What the figure is compared with.
        machine: For a goal: the kind of machine that it was stated for. Empty for a floor.
    """

    benchmark: str
    figure: str
    comparison: str
    bound: float
    stated: str
    case: str = ""
    peer: str = ""
    machine: str = ""

    @property
    def is_goal(self) -> bool:
        """Return whether this is a goal for one kind of machine, not a floor for all."""
        return bool(self.machine)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A floor beside the measurement that it bounds."""

    floor: Floor
    measurement: Measurement

    @property
    def held(self) -> bool:
        """Return whether the median satisfies the comparison."""
        return COMPARISONS[self.floor.comparison](self.measurement.median, self.floor.bound)

    def line(self) -> str:
        """Return the verdict as a line; a miss is in capitals, so that it catches the eye."""
        floor, figure = self.floor, self.measurement.figure
        kind = "goal" if floor.is_goal else "floor"
        head = f"{kind} held" if self.held else f"{kind} missed".upper()
        name = f"{figure.name}: {self.measurement.case}" if self.measurement.case else figure.name
        context = "; ".join(part for part in (floor.peer, floor.machine and f"stated for {floor.machine}") if part)
        value = f"{written(self.measurement.median)} {figure.unit}"
        return f"{head}: {name} is {value}, {floor.comparison} {floor.bound:g}" + (f" ({context})" if context else "")

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as JSON values."""
        return {
            "figure": self.floor.figure,
            "case": self.measurement.case,
            "value": self.measurement.median,
            "comparison": self.floor.comparison,
            "bound": self.floor.bound,
            "peer": self.floor.peer,
            "kind": "goal" if self.floor.is_goal else "floor",
            "held": self.held,
        }


def read_floors(path: Path = FLOORS) -> list[Floor]:
    """Read the `[[floor]]` and `[[goal]]` tables of a file.

    Raises:
        ValueError: a table lacks a field, has an unknown one, or names an unknown comparison.
    """
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    if unknown := tables.keys() - {"floor", "goal"}:
        raise ValueError(f"{path} has tables {sorted(unknown)}; expected [[floor]] and [[goal]]")
    floors = [_floor(fields, path) for fields in tables.get("floor", ())]
    goals = [_floor(fields, path) for fields in tables.get("goal", ())]
    for kind, several, expected in (("floor", floors, False), ("goal", goals, True)):
        for floor in several:
            if floor.is_goal is not expected:
                needs = "needs a `machine`" if expected else "holds on every machine: it takes no `machine`"
                raise ValueError(f"{path}: the {kind} of {floor.benchmark}, {floor.figure!r}, {needs}")
    return [*floors, *goals]


def _floor(fields: Mapping[str, Any], path: Path) -> Floor:
    if missing := [name for name in _FIELDS if name not in fields]:
        raise ValueError(f"{path}: {dict(fields)} lacks {', '.join(missing)}")
    if unknown := fields.keys() - {*_FIELDS, *_OPTIONAL}:
        raise ValueError(f"{path}: {dict(fields)} has unknown fields {sorted(unknown)}")
    if fields["comparison"] not in COMPARISONS:
        raise ValueError(f"{path}: {fields['comparison']!r} is none of {', '.join(map(repr, COMPARISONS))}")
    return Floor(**{**fields, "bound": float(fields["bound"])})


def check_figures(floors: Iterable[Floor], figures: Sequence[Figure]) -> None:
    """Check that the floors of one benchmark name figures that it has, and that none bounds an absolute time.

    Raises:
        ValueError: a figure is unknown, or the floor bounds an absolute time.
    """
    for floor in floors:
        figure = figure_named(figures, floor.figure)
        if figure.is_absolute_time and not floor.is_goal:
            raise ValueError(
                f"the floor of {floor.benchmark} bounds {floor.figure!r}, a time in {figure.unit}:"
                " bound its ratio to a peer of the same run, or make it a [[goal]] for a machine"
            )


def judge(floors: Iterable[Floor], measurements: Sequence[Measurement]) -> list[Verdict]:
    """Return a verdict for every measurement that a floor bounds; figures that this run did not measure have none."""
    return [
        Verdict(floor, measurement)
        for floor in floors
        for measurement in measurements
        if measurement.figure.name == floor.figure and floor.case in {"", measurement.case}
    ]
