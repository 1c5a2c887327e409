"""Plots of an evaluation: bars with intervals for each sub-set of the queries, and a histogram of average precision.

Plotting needs matplotlib (extra `eval`), which is imported when something is drawn.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from lodestone.errors import ConfigurationError
from lodestone_eval.composed.ann_report import AnnReport
from lodestone_eval.configurations import FULL, TEXT
from lodestone_eval.markdown import TITLES
from lodestone_eval.report import ConfigurationResult, EvalReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can tell apart.
_COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
_BINS: Final = 20
_DPI: Final = 120


def require_matplotlib() -> None:
    """Check that plots can be drawn, before a long run starts.

    Raises:
        ConfigurationError: matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401, ICN001 - only whether it is there
    except ImportError as error:
        raise ConfigurationError(
            "plots need matplotlib, which is not installed", hint="pip install 'lodestone-search[eval]'"
        ) from error


def draw(report: EvalReport, folder: Path) -> list[Path]:
    """Write the report's plots into a folder that exists, and return their paths."""
    require_matplotlib()
    drawn = {"bars.png": _bars(report), "histogram.png": _histogram(report), "gate.png": _gate(report)}
    paths = []
    for name, figure in drawn.items():
        if figure is not None:
            figure.savefig(folder / name, dpi=_DPI)
            paths.append(folder / name)
    return paths


def _bars(report: EvalReport) -> Figure | None:
    """Return a bar chart with one cluster of bars per sub-set and one bar per configuration; None when nothing was run."""
    from matplotlib.figure import Figure

    ran = [result for result in report.configurations if result.groups]
    if not ran:
        return None
    groups = {group.name: group.queries for result in ran for group in result.groups}
    figure = Figure(figsize=(max(6.0, 1.2 + len(groups) * (0.45 + 0.34 * len(ran))), 4.4), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(ran)
    top = 0.0
    for number_of_bar, result in enumerate(ran):
        means = {group.name: group.metrics[report.metric] for group in result.groups}
        positions = [number for number, name in enumerate(groups) if name in means]
        estimates = [means[name] for name in groups if name in means]
        heights = np.array([value.mean for value in estimates])
        spread = np.array([[value.mean - value.low for value in estimates], [value.high - value.mean for value in estimates]])
        axes.bar(
            np.array(positions) + (number_of_bar - (len(ran) - 1) / 2) * width,
            heights,
            width * 0.92,
            yerr=np.maximum(spread, 0),
            capsize=2,
            label=result.name,
            color=_COLOURS[number_of_bar % len(_COLOURS)],
            hatch="//" if number_of_bar >= len(_COLOURS) else None,
            edgecolor="white",
            linewidth=0,
            error_kw={"elinewidth": 1},
        )
        top = max(top, float((heights + spread[1]).max()))
    axes.set_xticks(range(len(groups)), [f"{name}\n(n = {count:,})" for name, count in groups.items()])
    axes.set_ylim(0, min(1.02, max(0.05, top * 1.12)))
    axes.set_ylabel(f"{TITLES[report.metric]}, 95% interval")
    axes.set_title(f"{report.benchmark}{f' ({report.split})' if report.split else ''}: {report.pictures:,} pictures")
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.legend(loc="outside lower center", ncols=min(4, len(ran)), frameon=False)
    return figure


def _histogram(report: EvalReport) -> Figure | None:
    """Return a histogram of the average precision of the text pass and of the full loop.

    None where there is nothing to show.
    """
    from matplotlib.figure import Figure

    shown = [result for name in (TEXT, FULL) if (result := report.configuration(name)) is not None]
    if report.kind != "ranking" or not shown:
        return None
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    edges = np.linspace(0, 1, _BINS + 1)
    axes.hist(
        [_values(result, report.metric) for result in shown],
        bins=list(edges),
        label=[result.name for result in shown],
        color=list(_COLOURS[: len(shown)]),
    )
    axes.set_xlim(0, 1)
    axes.set_xlabel("average precision of a query")
    axes.set_ylabel("queries")
    axes.set_title(f"{report.benchmark}: {len(report.queries):,} queries")
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False)
    return figure


def _gate(report: EvalReport) -> Figure | None:
    """Return a scatter of the gate's predictions and the text pass's average precision; None where no gate was asked."""
    from matplotlib.figure import Figure

    if report.gate is None or not report.gate.queries:
        return None
    columns = zip(report.gate.predicted, report.gate.actual, strict=True)
    predicted, actual = zip(*(pair for pair in columns if None not in pair), strict=True)
    figure = Figure(figsize=(5.0, 5.0), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=1)
    axes.scatter(predicted, actual, s=12, alpha=0.4, color=_COLOURS[0], linewidths=0)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("average precision that the gate predicts")
    axes.set_ylabel("average precision of the text pass")
    pearson = "" if report.gate.pearson is None else f", r = {report.gate.pearson:.2f}"
    axes.set_title(f"{report.benchmark}: {report.gate.queries:,} queries{pearson}")
    return figure


def _values(result: ConfigurationResult, metric: str) -> list[float]:
    return [value for value in result.values[metric] if value is not None]


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
