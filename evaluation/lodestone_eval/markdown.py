"""Text form of an evaluation: the report as Markdown tables, and comparisons as sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lodestone_eval.needle_metrics import PAIR_CHANCE
from lodestone_eval.needle_tables import markdown_of, needle_tables
from lodestone_eval.report import Comparison, EvalReport

_LEAST_P: Final = 0.001

TITLES: Final = {
    "map": "MAP",
    "r@10": "R@10",
    "p@10": "P@10",
    "recall@60": "recall@60",
    "precision@ep": "P@ep",
    "mrr": "MRR",
    "hit@1": "hit@1",
    "hit@10": "hit@10",
} | {metric: f"{metric} (chance {chance:.2f})" for metric, chance in PAIR_CHANCE.items()}


def describe(comparison: Comparison) -> str:
    """Return a comparison as a sentence: `full is better than text: +0.021 [0.010, 0.032]`."""
    difference = comparison.paired.difference
    if comparison.before == comparison.after:
        subject, than = "the second run", "the first"
    else:
        subject, than = comparison.after, comparison.before
    how = "better than" if difference.low > 0 else "worse than" if difference.high < 0 else "not told apart from"
    return f"{subject} is {how} {than}: {difference.mean:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]"


def p_value(p: float) -> str:
    """Return a p-value as it is printed: `0.031`, `< 0.001`."""
    return f"{p:.3f}" if p >= _LEAST_P else f"< {_LEAST_P}"


def to_markdown(report: EvalReport) -> str:
    """Return the report as Markdown tables."""
    where = f"{report.benchmark}{f' ({report.split})' if report.split else ''}"
    unit = "queries" if report.kind == "ranking" else "pairs"
    lines = [
        f"# {where}: {len(report.queries):,} {unit} over {report.pictures:,} pictures",
        "",
        f"Lodestone {report.lodestone}, profile `{report.profile}`; {report.described:,} pictures have captions or tags.",
        "Means with 95% intervals (bootstrap over independent groups of queries).",
        "",
    ]
    for group in _group_names(report):
        rows = _rows(report, group)
        if rows:
            count = next(g.queries for result in report.configurations for g in result.groups if g.name == group)
            lines += [f"## {group} ({count:,} {unit})", "", *rows, ""]
    lines += markdown_of(needle_tables(report))
    skipped = [result for result in report.configurations if result.skipped is not None]
    lines += [f"- `{result.name}` was not run: {result.skipped}" for result in skipped]
    lines += ["", "## Compared query by query", "", *_comparison_rows(report.comparisons), ""] if report.comparisons else [""]
    left_out = ", ".join(f"{count:,} {what}" for what, count in report.skipped.items())
    lines += [f"- left out of the benchmark: {left_out}"] if left_out else []
    lines += [f"- {note}" for note in report.notes]
    return "\n".join(lines).rstrip() + "\n"


def _rows(report: EvalReport, group: str) -> list[str]:
    head = ["configuration", *(TITLES[metric] for metric in report.metrics), "p50 ms", "guides", "simple"]
    rows = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    has_rows = False
    for result in report.configurations:
        metrics = next((g.metrics for g in result.groups if g.name == group), None)
        if metrics is None:
            continue
        has_rows = True
        latency = f"{result.latency_ms['p50']:.0f}" if result.latency_ms else ""
        simple = "" if result.simple is None else f"{result.simple:.0%}"
        cells = [f"`{result.name}`", *(str(metrics[name]) for name in report.metrics), latency, f"{result.guides:.1f}", simple]
        rows.append(f"| {' | '.join(cells)} |")
    return rows if has_rows else []


def _comparison_rows(comparisons: Sequence[Comparison]) -> list[str]:
    rows = [
        "| queries | n | before | after | metric | before | after | difference | p bootstrap | p Wilcoxon | better/worse |",
        f"|{'---|' * 11}",
    ]
    for comparison in comparisons:
        paired, difference = comparison.paired, comparison.paired.difference
        cells = [
            comparison.group,
            f"{paired.queries:,}",
            f"`{comparison.before}`",
            f"`{comparison.after}`",
            TITLES[comparison.metric],
            f"{paired.before:.3f}",
            f"{paired.after:.3f}",
            f"{difference.mean:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]",
            p_value(paired.p_bootstrap),
            p_value(paired.p_wilcoxon),
            f"{paired.better}/{paired.worse}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _group_names(report: EvalReport) -> list[str]:
    return list(dict.fromkeys(group.name for result in report.configurations for group in result.groups))
