"""Measurement of composed queries: every query is given to an answering function, and its ranking is measured.

The function is what is evaluated: anything from an exact scorer over arrays to a running service. It gets a query and the
number of results that the metrics need, and returns names of pictures, best first.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
from pydantic import Field

from lodestone import __version__
from lodestone.errors import LodestoneError
from lodestone_eval.compare import Estimate, bootstrap
from lodestone_eval.composed.metrics import depth_of, measure
from lodestone_eval.composed.queries import ComposedQuery, ComposedSet
from lodestone_eval.report import ALL, GroupMetrics, ReportModel

ComposedAnswer = Callable[[ComposedQuery, int | None], Sequence[str]]
"""Function that answers: (query, number of results or None for all) -> names of pictures, best first."""

OVER_LABELS: Final = "mean over labels"
"""Name of the group whose metrics are the means over labels of the means over queries, as FashionIQ and i-CIR publish them."""
_SHOWN_LABELS: Final = 12


class ComposedReport(ReportModel):
    """Holds the result of one method on one benchmark of composed queries."""

    created_at: datetime
    lodestone: str
    benchmark: str
    split: str | None
    method: str
    settings: dict[str, Any] = Field(default_factory=dict)
    pictures: int
    groups: list[GroupMetrics] = Field(description="Means with 95 % intervals: all queries, then each label.")
    queries: list[str] = Field(description="Ids of the queries, in their order.")
    values: dict[str, list[float | None]] = Field(description="Metric -> value of each query; null where it failed.")
    failures: dict[str, int] = Field(default_factory=dict, description="Error code -> queries.")
    latency_ms: dict[str, float] = Field(default_factory=dict, description="p50 and p95 of the answering function.")
    skipped: dict[str, int] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)


def rank_all(
    composed: ComposedSet,
    answer: ComposedAnswer,
    *,
    depth: int | None,
    report_progress: Callable[[int], None] | None = None,
) -> tuple[list[list[str] | None], list[float], Counter[str]]:
    """Return the ranking of each query (None where it failed), the milliseconds of each, and the errors by code.

    A ranking keeps the first place of each picture, and only pictures that the query searches.

    Raises:
        LodestoneError: every query failed; this is the first one's error.
    """
    rankings: list[list[str] | None] = []
    milliseconds = []
    failures: Counter[str] = Counter()
    first: LodestoneError | None = None
    for done, query in enumerate(composed.queries, 1):
        begun = time.perf_counter()
        try:
            # An answer that does not know of exclusions may spend results on them.
            found = answer(query, None if depth is None else depth + len(query.excluded))
        except LodestoneError as error:
            first = first or error
            failures[error.code] += 1
            rankings.append(None)
        else:
            searched = composed.pictures.keys() if query.candidates is None else query.candidates
            kept = [name for name in dict.fromkeys(found) if name in searched and name not in query.excluded]
            rankings.append(kept if depth is None else kept[:depth])
        milliseconds.append((time.perf_counter() - begun) * 1000)
        if report_progress is not None:
            report_progress(done)
    if first is not None and failures.total() == len(composed.queries):
        raise first
    return rankings, milliseconds, failures


def evaluate_composed(
    composed: ComposedSet,
    answer: ComposedAnswer,
    *,
    method: str,
    metrics: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    report_progress: Callable[[int], None] | None = None,
) -> ComposedReport:
    """Give every query to `answer`, measure the rankings, and return the report.

    Args:
        composed: The benchmark, with a published truth.
        answer: The function to measure.
        method: Its name, for the report.
        metrics: Names of metrics; empty for those of the benchmark.
        settings: What the answers depend on, for the report.
        report_progress: Gets the number of queries done.

    Raises:
        LodestoneError: every query failed.
        UnknownNameError: there is no such metric.
    """
    names = tuple(metrics) or composed.metrics
    rankings, milliseconds, failures = rank_all(composed, answer, depth=depth_of(names), report_progress=report_progress)
    return report_of(
        composed, rankings, method=method, metrics=names, settings=settings, failures=failures, milliseconds=milliseconds
    )


def report_of(
    composed: ComposedSet,
    rankings: Sequence[Sequence[str] | None],
    *,
    method: str,
    metrics: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    failures: Mapping[str, int] | None = None,
    milliseconds: Sequence[float] = (),
) -> ComposedReport:
    """Return the report of rankings that are there already, such as those of a submission.

    Args:
        composed: The benchmark.
        rankings: One ranking of each query, in their order; None where it failed.
        method: Name of what ranked.
        metrics: Names of metrics; empty for those of the benchmark.
        settings: What the rankings depend on.
        failures: Error code -> number of queries.
        milliseconds: Time of each query.
    """
    names = tuple(metrics) or composed.metrics
    measured = [
        None if ranked is None else measure(query, ranked, names)
        for query, ranked in zip(composed.queries, rankings, strict=True)
    ]
    quantiles = np.quantile(milliseconds, [0.5, 0.95]) if len(milliseconds) else ()
    return ComposedReport(
        created_at=datetime.now(UTC),
        lodestone=__version__,
        benchmark=composed.name,
        split=composed.split,
        method=method,
        settings=dict(settings or {}),
        pictures=len(composed.pictures),
        groups=_groups(composed.queries, measured, names),
        queries=[query.query_id for query in composed.queries],
        values={name: [None if row is None else row[name] for row in measured] for name in names},
        failures=dict(failures or {}),
        latency_ms={key: round(float(value), 3) for key, value in zip(("p50", "p95"), quantiles, strict=False)},
        skipped=dict(composed.skipped),
        notes=[] if composed.has_truth else ["the truth of this split is not published: submit the answers"],
    )


def _groups(
    queries: Sequence[ComposedQuery], measured: Sequence[Mapping[str, float] | None], names: Sequence[str]
) -> list[GroupMetrics]:
    labels = dict.fromkeys(label for query in queries for label in query.labels)
    rows = [(query, row) for query, row in zip(queries, measured, strict=True) if row is not None]
    groups = [_group(ALL, [row for _, row in rows], names)]
    by_label = {label: [row for query, row in rows if label in query.labels] for label in labels}
    held = [_group(label, members, names) for label, members in by_label.items() if members]
    if len(held) > 1:
        means = {name: _mean_of_means([group.metrics[name].mean for group in held]) for name in names}
        groups.append(GroupMetrics(name=OVER_LABELS, queries=len(rows), metrics=means))
        if len(held) <= _SHOWN_LABELS:
            groups += held
    return groups


def _group(name: str, rows: Sequence[Mapping[str, float]], names: Iterable[str]) -> GroupMetrics:
    metrics = {metric: bootstrap(np.array([row[metric] for row in rows])) for metric in names} if rows else {}
    return GroupMetrics(name=name, queries=len(rows), metrics=metrics)


def _mean_of_means(means: Sequence[float]) -> Estimate:
    return bootstrap(np.array(means))
