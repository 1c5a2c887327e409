"""How does an evaluation look? Bars with intervals for each sub-set of the queries, and where average precision lies.

Needs matplotlib (extra `eval`), which is loaded when something is drawn.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from lodestone.errors import ConfigurationError
from lodestone.evaluation.configurations import FULL, TEXT
from lodestone.evaluation.markdown import TITLES
from lodestone.evaluation.report import ConfigurationResult, EvalReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can tell apart.
_COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
_BINS: Final = 20
_DPI: Final = 120


def require_matplotlib() -> None:
    """Raise `ConfigurationError` where nothing can be drawn: before a long run, not after it."""
    try:
        import matplotlib  # noqa: F401, ICN001 - only whether it is there
    except ImportError as error:
        raise ConfigurationError(
            "plots need matplotlib, which is not installed", hint="pip install 'lodestone-search[eval]'"
        ) from error


def draw(report: EvalReport, folder: Path) -> list[Path]:
    """Write the report's pictures into a folder that exists; returns their paths."""
    require_matplotlib()
    drawn = {"bars.png": _bars(report), "histogram.png": _histogram(report)}
    paths = []
    for name, figure in drawn.items():
        if figure is not None:
            figure.savefig(folder / name, dpi=_DPI)
            paths.append(folder / name)
    return paths


def _bars(report: EvalReport) -> Figure | None:
    """One cluster of bars a sub-set, one bar a configuration."""
    from matplotlib.figure import Figure

    ran = [one for one in report.configurations if one.groups]
    if not ran:
        return None
    groups = {group.name: group.queries for one in ran for group in one.groups}
    figure = Figure(figsize=(max(6.0, 1.2 + len(groups) * (0.45 + 0.34 * len(ran))), 4.4), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(ran)
    top = 0.0
    for place, one in enumerate(ran):
        means = {group.name: group.metrics[report.metric] for group in one.groups}
        at = [number for number, name in enumerate(groups) if name in means]
        found = [means[name] for name in groups if name in means]
        heights = np.array([value.mean for value in found])
        spread = np.array([[value.mean - value.low for value in found], [value.high - value.mean for value in found]])
        axes.bar(
            np.array(at) + (place - (len(ran) - 1) / 2) * width,
            heights,
            width * 0.92,
            yerr=np.maximum(spread, 0),
            capsize=2,
            label=one.name,
            color=_COLOURS[place % len(_COLOURS)],
            hatch="//" if place >= len(_COLOURS) else None,
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
    """Average precision of the text pass and of the last configuration that answers to it, over the queries."""
    from matplotlib.figure import Figure

    shown = [one for name in (TEXT, FULL) if (one := report.configuration(name)) is not None]
    if report.kind != "ranking" or not shown:
        return None
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    edges = np.linspace(0, 1, _BINS + 1)
    axes.hist(
        [_values(one, report.metric) for one in shown],
        bins=list(edges),
        label=[one.name for one in shown],
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


def _values(result: ConfigurationResult, metric: str) -> list[float]:
    return [value for value in result.values[metric] if value is not None]
