"""Report of one run of a benchmark: text, tables, figures and details, as Markdown and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks.harness.figures import HEADING, Figure, Measurement, figure_named
from benchmarks.harness.floors import Verdict
from benchmarks.harness.machine import describe_load, describe_machine
from benchmarks.harness.tables import table


class Report:
    """What one run of a benchmark measured and says.

    Args:
        name: Short name of the benchmark.
        figures: The figures that it may record.
        echo: Print blocks of text as they are added.
        section: Section of a documentation page that the report belongs into; `measure` may change it.
    """

    def __init__(self, name: str, figures: Sequence[Figure], *, echo: bool = False, section: str = "") -> None:
        self.name = name
        self.section = section
        self.measurements: list[Measurement] = []
        self._figures, self._echo = figures, echo
        self._blocks: list[str] = []
        self._details: dict[str, Any] = {}

    def text(self, *blocks: str) -> None:
        """Add blocks of Markdown, with an empty line between them; empty ones are left out."""
        for block in blocks:
            if block.strip():
                self._blocks.append(block.strip())
                if self._echo:
                    print(f"{block.strip()}\n", flush=True)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Add rows, the first of which is the heading, as a table."""
        self.text(table(rows))

    def progress(self, line: str) -> None:
        """Print a line about the run to standard error; it is not part of the report."""
        print(line, file=sys.stderr, flush=True)

    def record(self, figure: str, values: float | Sequence[float], *, case: str = "") -> None:
        """Record what was measured of a figure.

        Args:
            figure: Name of a declared figure.
            values: One value, or one a repetition.
            case: Which of several cases was measured.

        Raises:
            ValueError: the figure was not declared, or has no value.
        """
        runs = (float(values),) if isinstance(values, int | float) else tuple(float(value) for value in values)
        if not runs:
            raise ValueError(f"{self.name} recorded no value of {figure!r}")
        self.measurements.append(Measurement(figure_named(self._figures, figure), case, runs))

    def detail(self, name: str, value: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
        """Add JSON values that are more than figures, such as a histogram; they appear in the JSON report alone."""
        self._details[name] = value

    def figures_table(self) -> str:
        """Return all measurements as a table; empty without any."""
        return table([HEADING, *(measurement.cells() for measurement in self.measurements)]) if self.measurements else ""

    def conclusion(self, verdicts: Sequence[Verdict]) -> str:
        """Return what follows the blocks of text: figures, the verdict on each floor, machine, load and day."""
        floors = "\n".join(f"- {verdict.line()}" for verdict in verdicts)
        return "\n\n".join(part for part in (self.figures_table(), floors, self.machine_line()) if part)

    def as_text(self, verdicts: Sequence[Verdict]) -> str:
        """Return blocks and conclusion: what a documentation page shows."""
        return "\n\n".join([*self._blocks, self.conclusion(verdicts)])

    def machine_line(self) -> str:
        """Return the machine, its load and the day as one line."""
        return f"{describe_machine()}; {describe_load()}; {datetime.now(UTC):%Y-%m-%d}."

    def as_json(self, verdicts: Sequence[Verdict]) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "benchmark": self.name,
            "machine": describe_machine(),
            "load": describe_load(),
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "figures": [measurement.as_json() for measurement in self.measurements],
            "floors": [verdict.as_json() for verdict in verdicts],
            "details": self._details,
        }
