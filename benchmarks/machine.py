"""On what machine, and how are figures summed up?"""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Final

MISSED: Final = "NO"


def describe_machine() -> str:
    """Processor, cores, memory, system: one line that belongs to every figure."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def spread(values: Sequence[float], unit: str = "") -> str:
    """Median with the quartiles: `41.2 [39.8, 44.0] ms`."""
    if len(values) < 2:
        return f"{values[0]:.3g}{unit}"
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{statistics.median(values):.3g} [{low:.3g}, {high:.3g}]{unit}"


def verdict(*, met: bool) -> str:
    """How a report says whether a goal was met: a miss must catch the eye. `benchmarks.run` counts them by this word."""
    return "yes" if met else MISSED


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows, the first one the heading, as a Markdown table."""
    head, *body = rows
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in body)])
