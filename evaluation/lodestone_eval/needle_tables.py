"""NEEDLE's tables of an evaluation, laid out as in the paper: its tables 1, 2 and 4 and its figures 4, 5c and 6.

Table 1 has the cells `all / hard`. The ablations give MAP; for pairs, whose paper figures are accuracies, pairing accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from lodestone_eval.needle_metrics import PAIR_CHANCE
from lodestone_eval.needle_variants import NEEDLE, NEEDLE_NAMES
from lodestone_eval.report import ALL, HARD, ConfigurationResult, EvalReport

_RANKING_COLUMNS: Final = (("R@10", "r@10"), ("P@10", "p@10"), ("MAP", "map"), ("MRR", "mrr"))
_PAIR_COLUMNS: Final = (
    (f"PAcc, one caption (chance {PAIR_CHANCE['pairing']:.2f})", "pairing"),
    (f"PAcc, both captions (chance {PAIR_CHANCE['image']:.2f})", "image"),
    ("MRR", "mrr"),
)
_WITHOUT_OUTLIERS: Final = "needle - outliers"


@dataclass(frozen=True, slots=True)
class NeedleTable:
    """One table: a title, the names of its columns, and rows of cells, all as they are printed."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def needle_tables(report: EvalReport) -> list[NeedleTable]:
    """Return the tables of a report; none where NEEDLE's ranking was not run."""
    if report.configuration(NEEDLE) is None:
        return []
    tables = [_main_table(report), _grid(report), _engines(report), _sizes(report), _outliers(report), _gate(report)]
    return [table for table in tables if table is not None]


def _main_table(report: EvalReport) -> NeedleTable:
    ran = [result for result in report.configurations if result.skipped is None and result.groups]
    shown = [result for result in ran if result.needle is None and " - " not in result.name and "," not in result.name]
    shown += [result for result in ran if result.name in NEEDLE_NAMES]
    if report.kind == "pairs":
        rows = tuple((result.name, *(_mean(result, ALL, metric) for _, metric in _PAIR_COLUMNS)) for result in shown)
        return NeedleTable("NEEDLE, table 2: pairs", ("", *(title for title, _ in _PAIR_COLUMNS)), rows)
    rows = tuple(
        (result.name, *(f"{_mean(result, ALL, metric)} / {_mean(result, HARD, metric)}" for _, metric in _RANKING_COLUMNS))
        for result in shown
    )
    return NeedleTable("NEEDLE, table 1: all queries / hard queries", ("", *(title for title, _ in _RANKING_COLUMNS)), rows)


def _grid(report: EvalReport) -> NeedleTable | None:
    """Return figure 4: a row for each m, a column for each l."""
    cells: dict[tuple[int, int], str] = {}
    for result in _variants(report, "needle, m="):
        form = _form(result)
        cells[form["per_engine"], len(form["embedders"])] = _main(report, result)
    if len(cells) < 2:
        return None
    columns = sorted({embedders for _, embedders in cells})
    rows = tuple(
        (f"m={count}", *(cells.get((count, embedders), "") for embedders in columns))
        for count in sorted({count for count, _ in cells})
    )
    head = ("", *(f"l={embedders}" for embedders in columns))
    return NeedleTable(f"NEEDLE, figure 4: {_metric(report)} by guides of an engine (m) and embedders (l)", head, rows)


def _engines(report: EvalReport) -> NeedleTable | None:
    variants = _variants(report, "needle, engines=")
    rows = tuple((str(len(_form(result)["engines"])), _main(report, result)) for result in variants)
    title = f"NEEDLE, figure 6a: {_metric(report)} by number of engines"
    return (
        NeedleTable(title, ("engines", _metric(report)), tuple(sorted(rows, key=lambda row: int(row[0])))) if rows[1:] else None
    )


def _sizes(report: EvalReport) -> NeedleTable | None:
    found = [result for result in _variants(report, "needle, size=") if _form(result)["size"] is not None]
    rows = tuple((str(_form(result)["size"]), _main(report, result)) for result in found)
    title = f"NEEDLE, figure 6b: {_metric(report)} by side of a guide's picture, in pixels"
    return NeedleTable(title, ("size", _metric(report)), rows) if rows else None


def _outliers(report: EvalReport) -> NeedleTable | None:
    kept, filtered = report.configuration(_WITHOUT_OUTLIERS), report.configuration(NEEDLE)
    if kept is None or filtered is None:
        return None
    row = (_main(report, kept), _main(report, filtered))
    return NeedleTable(f"NEEDLE, table 4: {_metric(report)} without and with the filter", ("no detection", "detection"), (row,))


def _gate(report: EvalReport) -> NeedleTable | None:
    """Return figure 5c in numbers: queries by the gate's prediction, with the mean of what the text pass reached."""
    if report.gate is None or not report.gate.queries:
        return None
    pairs = [
        (predicted, actual)
        for predicted, actual in zip(report.gate.predicted, report.gate.actual, strict=True)
        if predicted is not None and actual is not None
    ]
    rows = []
    for fifth in range(5):
        inside = [pair for pair in pairs if min(int(pair[0] * 5), 4) == fifth]
        if inside:
            predicted, actual = (sum(column) / len(inside) for column in zip(*inside, strict=True))
            rows.append((f"{fifth / 5:.1f} to {(fifth + 1) / 5:.1f}", str(len(inside)), f"{predicted:.3f}", f"{actual:.3f}"))
    pearson = "none" if report.gate.pearson is None else f"{report.gate.pearson:.3f}"
    title = f"NEEDLE, figure 5c: the gate's prediction and the text pass; r = {pearson}, n = {report.gate.queries:,}"
    return NeedleTable(title, ("predicted", "queries", "mean predicted", "mean AP"), tuple(rows))


def _variants(report: EvalReport, prefix: str) -> list[ConfigurationResult]:
    """Return `needle` and the variants of one ablation; none where it was not run."""
    ran = [result for result in report.configurations if result.skipped is None and result.groups]
    varied = [result for result in ran if result.name.startswith(prefix)]
    return [*(result for result in ran if result.name == NEEDLE), *varied] if varied else []


def _form(result: ConfigurationResult) -> dict[str, Any]:
    """Return the fields of the `NeedleVariant` behind a result."""
    return result.needle or {}


def _metric(report: EvalReport) -> str:
    return "MAP" if report.kind == "ranking" else "PAcc, one caption"


def _main(report: EvalReport, result: ConfigurationResult) -> str:
    return _mean(result, ALL, report.metric)


def _mean(result: ConfigurationResult, group: str, metric: str) -> str:
    metrics = next((one.metrics for one in result.groups if one.name == group), {})
    return f"{metrics[metric].mean:.3f}" if metric in metrics else "-"


def markdown_of(tables: Sequence[NeedleTable]) -> list[str]:
    """Return the lines of the tables as Markdown."""
    lines: list[str] = []
    for table in tables:
        lines += [f"## {table.title}", "", f"| {' | '.join(table.head)} |", f"|{'---|' * len(table.head)}"]
        lines += [f"| {' | '.join(row)} |" for row in table.rows]
        lines.append("")
    return lines
