"""Plot of recall against queries per second: one curve a method and a number of results, as in MUST's figures 6 and 8."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lodestone_eval.composed.ann_report import AnnReport
from lodestone_eval.plots import require_matplotlib

_DPI: Final = 120


def draw_curves(report: AnnReport, folder: Path) -> Path:
    """Write `curves.png` into a folder that exists, and return its path.

    Raises:
        ConfigurationError: matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    curves: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for row in report.rows:
        if row.table == "curve":
            curves.setdefault((row.method, row.k), []).append((row.recall.mean, row.queries_per_second))
    for (method, k), points in curves.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=f"{method}, k = {k}")
    axes.set(xlabel="recall", ylabel="queries per second", yscale="log", title=report.vectors)
    axes.legend()
    path = folder / "curves.png"
    figure.savefig(path, dpi=_DPI)
    return path
