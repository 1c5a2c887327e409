"""Declaration of a benchmark and its command line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.figures import Figure
from benchmarks.harness.floors import check_figures, judge, read_floors
from benchmarks.harness.pages import put
from benchmarks.harness.report import Report

Measure = Callable[[argparse.Namespace, Report], int | None]


def no_options(_parser: argparse.ArgumentParser) -> None:
    """Declare no options of the benchmark's own."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Declaration of one benchmark: what it measures, and how it is run.

    Attributes:
        name: Short name, as in `benchmarks.registry` and in `floors.toml`.
        about: What is measured and how; the module's docstring.
        figures: The figures that it can record.
        measure: Measures and records. Returns the exit code, if it is not 0: an answer was wrong, a request was lost.
        options: Adds options to the command line.
        child: Runs one of the programs that the benchmark starts and measures, if the options ask for one; returns whether
            it did.
        section: Section of a documentation page that `--write PAGE` replaces; empty: there is no such option.
    """

    name: str
    about: str
    figures: tuple[Figure, ...]
    measure: Measure
    options: Callable[[argparse.ArgumentParser], None] = no_options
    child: Callable[[argparse.Namespace], bool] | None = None
    section: str = ""

    def parser(self) -> argparse.ArgumentParser:
        """Return the parser of the command line: the benchmark's own options and those of every benchmark."""
        parser = argparse.ArgumentParser(
            prog=f"python -m {_module_of(self.measure)}",
            description=self.about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.options(parser)
        common = parser.add_argument_group("options of every benchmark")
        common.add_argument("--json", action="store_true", help="print figures, floors and details as JSON, for machines")
        common.add_argument("--figures", type=Path, metavar="FILE", help="also write that JSON into a file")
        common.add_argument("--enforce", action="store_true", help="end with status 1 if a floor is missed")
        if self.section:
            common.add_argument(
                "--write", type=Path, metavar="PAGE", help=f"a page with a section `{self.section}`; plots go beside it"
            )
        return parser

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Parse the command line, measure, report, and return the exit code."""
        options = self.parser().parse_args(arguments)
        if self.child is not None and self.child(options):
            return 0
        floors = [floor for floor in read_floors() if floor.benchmark == self.name]
        check_figures(floors, self.figures)
        report = Report(self.name, self.figures, echo=not options.json, section=self.section)
        code = self.measure(options, report) or 0
        verdicts = judge(floors, report.measurements)
        values = report.as_json(verdicts)
        if options.json:
            print(json.dumps(values, default=str))
        else:
            print(report.conclusion(verdicts))
        if options.figures:
            options.figures.write_text(json.dumps(values, default=str), encoding="utf-8")
        if self.section and options.write:
            put(options.write, report.section, report.as_text(verdicts))
        missed = any(not verdict.held and not verdict.floor.is_goal for verdict in verdicts)
        return code or (1 if options.enforce and missed else 0)


def _module_of(function: Measure) -> str:
    """Return the dotted name of the function's module, also where Python runs that module."""
    specification = sys.modules["__main__"].__spec__ if function.__module__ == "__main__" else None
    return function.__module__ if specification is None else specification.name
