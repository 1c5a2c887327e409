"""Plots of latency against load, goodput against offered load, and a load that is disturbed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.loading.outcomes import ERRORS, Outcome, Verdict
from benchmarks.loading.recovery import Struck
from benchmarks.loading.summary import BOUNDS, Summary

_COLOURS = ("tab:blue", "tab:grey", "tab:orange", "tab:green")


def latency_against_load(series: Mapping[str, Sequence[Summary]], path: Path, *, title: str) -> None:
    """Plot percentiles over the offered rate, and the distribution at the highest rate of each series."""
    with _figure(path, title, columns=2) as (left, right):
        for colour, (name, summaries) in zip(_COLOURS, series.items(), strict=False):
            rates = [summary.offered for summary in summaries]
            left.plot(rates, [summary.p50 for summary in summaries], color=colour, marker="o", label=f"{name}, p50")
            left.plot(
                rates, [summary.p99 for summary in summaries], color=colour, marker="o", linestyle="--", label=f"{name}, p99"
            )
            counts = np.array(summaries[-1].histogram, float)
            share = np.cumsum(counts) / max(1.0, counts.sum())
            right.plot(BOUNDS * 1000, share, color=colour, label=f"{name}, {rates[-1]:.1f} requests/s")
        left.set(xlabel="offered, requests/s", ylabel="latency, ms", yscale="log")
        right.set(xlabel="latency, ms", ylabel="share of answers that came sooner", xscale="log")
        for axes in (left, right):
            axes.legend(fontsize=8)


def goodput_against_load(series: Mapping[str, Sequence[Summary]], path: Path, *, deadline: float, title: str) -> None:
    """Plot goodput over the offered rate, and p99 of the answers beside the deadline."""
    with _figure(path, title, columns=2) as (left, right):
        most = max(summary.offered for summaries in series.values() for summary in summaries)
        left.plot([0, most], [0, most], color="black", linewidth=0.6, label="all of it")
        for colour, (name, summaries) in zip(_COLOURS, series.items(), strict=False):
            rates = [summary.offered for summary in summaries]
            left.plot(rates, [summary.goodput for summary in summaries], color=colour, marker="o", label=name)
            right.plot(rates, [summary.p99 / 1000 for summary in summaries], color=colour, marker="o", label=f"{name}, p99")
        right.axhline(deadline, color="tab:red", linewidth=0.8, label="deadline")
        left.set(xlabel="offered, requests/s", ylabel="answers within the deadline / s", ylim=(0, None))
        left.set_ylim(0, 1.3 * max(summary.goodput for summaries in series.values() for summary in summaries))
        right.set(xlabel="offered, requests/s", ylabel="seconds", ylim=(0, None))
        for axes in (left, right):
            axes.legend(fontsize=8)


def timeline(outcomes: Sequence[Outcome], struck: Sequence[Struck], path: Path, *, title: str) -> None:
    """Plot answers, refusals and failures of each second; lines mark faults (red) and repairs (green)."""
    seconds = np.arange(int(max((outcome.due for outcome in outcomes), default=0.0)) + 2)
    kinds = {
        "answered in time": ("tab:blue", [outcome for outcome in outcomes if outcome.in_time]),
        "refused (429), late": (
            "tab:orange",
            [outcome for outcome in outcomes if outcome.verdict in {Verdict.SHED, Verdict.LATE}],
        ),
        "failed": ("tab:red", [outcome for outcome in outcomes if outcome.verdict in ERRORS]),
    }
    with _figure(path, title, columns=1) as (axes,):
        bottom = np.zeros(len(seconds) - 1)
        for name, (colour, several) in kinds.items():
            counts, _ = np.histogram([outcome.due for outcome in several], bins=seconds)
            axes.bar(seconds[:-1], counts, width=1.0, align="edge", bottom=bottom, color=colour, label=name)
            bottom += counts
        for fault in struck:
            axes.axvline(fault.at, color="tab:red", linewidth=1)
            axes.annotate(fault.name, (fault.at, 0.98), xycoords=("data", "axes fraction"), rotation=90, va="top", fontsize=8)
            if fault.mended is not None:
                axes.axvline(fault.mended, color="tab:green", linewidth=1)
        axes.set(xlabel="seconds", ylabel="requests that were due")
        axes.set_ylim(0, 1.5 * max(1.0, axes.get_ylim()[1]))  # room for the names
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=3)


def steps(
    moments: Sequence[tuple[float, str]],
    outcomes: Sequence[Outcome],
    replicas: Sequence[tuple[float, int, int]],
    path: Path,
    *,
    title: str = "",
) -> None:
    """Plot the latency of each request and the replicas (seconds, all, serving) over time; `moments` are marked by name."""
    with _figure(path, title, columns=1, rows=2) as (top, bottom):
        good = [outcome for outcome in outcomes if outcome.in_time]
        bad = [outcome for outcome in outcomes if not outcome.in_time]
        top.plot(
            [outcome.due for outcome in good], [outcome.latency * 1000 for outcome in good], ".", markersize=3, color="tab:blue"
        )
        top.plot(
            [outcome.due for outcome in bad],
            [outcome.latency * 1000 for outcome in bad],
            "x",
            color="tab:red",
            label="not in time",
        )
        top.set(ylabel="latency, ms", yscale="log")
        times = [at for at, _, _ in replicas]
        bottom.step(
            times,
            [wanted for _, wanted, _ in replicas],
            where="post",
            color="tab:grey",
            label="replicas, starting and stopping ones too",
        )
        bottom.step(times, [there for _, _, there in replicas], where="post", color="tab:blue", label="replicas serving")
        bottom.set(xlabel="seconds", ylabel="replicas", ylim=(0, None))
        bottom.legend(fontsize=8)
        for axes in (top, bottom):
            for at, _ in moments:
                axes.axvline(at, color="black", linewidth=0.6)
        for at, name in moments:
            top.annotate(name, (at, 1.0), xycoords=("data", "axes fraction"), rotation=90, va="top", fontsize=8)


@contextmanager
def _figure(path: Path, title: str, *, columns: int, rows: int = 1) -> Iterator[list[Any]]:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, grid = plt.subplots(rows, columns, figsize=(5.2 * columns if columns > 1 else 9, 3.8 * rows), squeeze=False)
    yield list(grid.ravel())
    if title:
        figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
