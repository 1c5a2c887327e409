"""Markdown tables and the way in which repeated measurements are written in them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def spread(values: Sequence[float], unit: str = "") -> str:
    """Return the median with the quartiles: `41.2 [39.8, 44.0] ms`."""
    if len(values) < 2:
        return f"{values[0]:.3g}{unit}"
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{statistics.median(values):.3g} [{low:.3g}, {high:.3g}]{unit}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the first of which is the heading, as a Markdown table."""
    head, *body = rows
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in body)])


def percentile_line(name: str, milliseconds: Sequence[float]) -> str:
    """Return a name with the median and the 95th percentile of latencies."""
    cuts = statistics.quantiles(milliseconds, n=20, method="inclusive") if len(milliseconds) > 1 else [milliseconds[0]] * 19
    return f"{name:<22} p50 {cuts[9]:7.2f} ms   p95 {cuts[18]:7.2f} ms"
