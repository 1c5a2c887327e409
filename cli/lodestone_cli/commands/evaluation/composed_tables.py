"""Tables of evaluations of composed queries on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from lodestone_cli.command_context import printable
from lodestone_cli.terminal.console import print_table

if TYPE_CHECKING:
    from rich.console import Console

    from lodestone_eval.composed.ann_report import AnnReport, AnnRow
    from lodestone_eval.composed.answers import ComposedReport

_NAME_WIDTH: Final = 24
_COUNT_WIDTH: Final = 6
_ESTIMATE_WIDTH: Final = len("0.742 [0.711, 0.773]")
_GAP: Final = 2
_GROUPS: Final = 14  # rows of labels on the screen


def print_composed(console: Console, reports: list[ComposedReport], written: list[Path]) -> None:
    """Print a row a method with the means over all queries, then the labels of the last method."""
    from rich.table import Table

    if reports:
        last = reports[-1]
        console.print(
            f"{last.benchmark}{f' ({last.split})' if last.split else ''}: {len(last.queries):,} queries over {last.pictures:,} "
            "pictures; means with 95% intervals of the first metric",
            markup=False,
        )
        every = list(last.values)
        room = (console.width - _NAME_WIDTH - _COUNT_WIDTH - _ESTIMATE_WIDTH) // (max(map(len, every)) + _GAP)
        metrics = every[: max(1, room + 1)]
        rows = [(one.method, one.groups[0]) for one in reports]
        rows += [(f"  {group.name}", group) for group in last.groups[1:_GROUPS]]
        table = Table(box=None, pad_edge=False)
        table.add_column("", no_wrap=True, min_width=_NAME_WIDTH)
        table.add_column("n", justify="right", no_wrap=True)
        for number, metric in enumerate(metrics):
            width = _ESTIMATE_WIDTH if number == 0 else len(metric)
            table.add_column(metric, justify="right", no_wrap=True, min_width=width)
        for name, group in rows:
            values = [group.metrics[metric] for metric in metrics if metric in group.metrics]
            cells = [str(value) if number == 0 else f"{value.mean:.3f}" for number, value in enumerate(values)]
            table.add_row(name, f"{group.queries:,}", *cells)
        print_table(console, table, markup=False)
        if squares := last.settings.get("weights"):
            console.print(f"weights: {', '.join(f'{name} {value:.3g}' for name, value in squares.items())}", markup=False)
        if hidden := every[len(metrics) :]:
            console.print(f"with --report or -o json: {', '.join(hidden)}", style="dim", markup=False)
        for code, count in last.failures.items():
            console.print(f"note: {count:,} queries failed: {code}", style="yellow", markup=False)
    for path in written:
        console.print(printable(f"wrote {path}"), style="dim", markup=False)


def print_ann(console: Console, found: AnnReport, written: list[Path]) -> None:
    """Print a table for each of the paper's tables and curves."""
    from rich.table import Table

    chosen = ", chosen on other queries" if found.chosen else ""
    console.print(
        f"{found.vectors}: {found.queries:,} queries over {found.objects:,} objects; weights "
        f"{', '.join(f'{name} {weight:.3g}' for name, weight in zip(found.modalities, found.weights, strict=True))}{chosen}",
        markup=False,
    )
    for title in dict.fromkeys(row.table for row in found.rows):
        table = Table(title=title, title_justify="left", title_style="", box=None, pad_edge=False)
        table.add_column("", no_wrap=True, min_width=_NAME_WIDTH)
        last = "similarity" if title == "weights" else "SME"
        for column in ("l", "k(k')", "recall", last, "queries/s"):
            width = _ESTIMATE_WIDTH if column == "recall" else len(column)
            table.add_column(column, justify="right", no_wrap=True, min_width=width)
        for row in found.rows:
            if row.table == title:
                table.add_row(
                    _named(row),
                    "" if row.effort is None else f"{row.effort:,}",
                    f"{row.k}({row.wanted})",
                    str(row.recall),
                    _similarities(row) if title == "weights" else "" if row.error is None else f"{row.error.mean:.4f}",
                    f"{row.queries_per_second:,.0f}",
                )
        console.print()
        print_table(console, table, markup=False)
    for note in found.notes:
        console.print(printable(f"note: {note}"), style="yellow", markup=False)
    for path in written:
        console.print(printable(f"wrote {path}"), style="dim", markup=False)


def _named(row: AnnRow) -> str:
    weights = "/".join(f"{weight:.2g}" for weight in row.weights)
    return f"{row.method} {weights if row.table == 'weights' else row.about}".strip()


def _similarities(row: AnnRow) -> str:
    return " ".join("-" if value is None else f"{value:.3f}" for value in row.similarity)
