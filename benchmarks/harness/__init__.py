"""Harness of the benchmarks: declaration, command line, repetitions, report and floors.

A benchmark is a module with a `BENCHMARK`: a name, the figures that it measures (each with a unit and, where there is one, the
peer that it is compared with in the same run), its options, and a function that measures and records the figures in a
`Report`. The harness parses the command line, sums up repetitions as minimum, median and maximum, names the machine, writes
text or JSON, and checks the floors of `benchmarks/floors.toml`.
"""

from benchmarks.harness.benchmark import Benchmark
from benchmarks.harness.figures import Figure
from benchmarks.harness.report import Report

__all__ = ["Benchmark", "Figure", "Report"]
