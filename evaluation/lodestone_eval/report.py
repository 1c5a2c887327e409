"""Report of an evaluation: one JSON document with every query's values, so that two runs can be compared later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lodestone.config.settings import flatten
from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_eval.compare import Estimate, Paired, compare_paired
from lodestone_eval.needle_metrics import PAIR_METRICS, RANKING_METRICS

FORMAT: Final = 1
ALL: Final = "all"
HARD: Final = "hard"


class ReportModel(BaseModel):
    """Part of a report, or a whole one; members of a newer version are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    def save(self, path: Path) -> None:
        """Write it to a file as JSON."""
        path.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")


class QueryRow(ReportModel):
    """Describes one query (or pair) of the run."""

    query_id: str
    text: str
    relevant: int = Field(description="Right pictures.")
    group: str = Field(description="Queries of one group are not independent: the captions of one picture.")
    sets: list[str] = Field(description="Sub-sets that it is in: hard, described, a label.")


class GroupMetrics(ReportModel):
    """Holds the means over one set of queries."""

    name: str
    queries: int
    metrics: dict[str, Estimate]


class ConfigurationResult(ReportModel):
    """Holds the results of one configuration."""

    name: str
    about: str
    against: str = ""
    skipped: str | None = Field(None, description="Why it was not run.")
    request: dict[str, Any] = Field(default_factory=dict)
    groups: list[GroupMetrics] = Field(default_factory=list)
    values: dict[str, list[float | None]] = Field(
        default_factory=dict, description="Metric -> value of each query, in their order; null where it failed."
    )
    failures: dict[str, int] = Field(default_factory=dict, description="Error code -> queries.")
    latency_ms: dict[str, float] = Field(default_factory=dict, description="p50 and p95 of the engine, queries side by side.")
    guides: float = Field(0.0, description="Used a query.")
    rejected: float = Field(0.0, description="Rejected a query.")
    simple: float | None = Field(None, description="Share of queries that the gate stopped; null where it was not asked.")
    cost: float = 0.0
    remarks: dict[str, int] = Field(default_factory=dict, description="Warning -> queries.")
    needle: dict[str, Any] | None = Field(None, description="Form of NEEDLE's ranking; null for the home's own engine.")


class Comparison(ReportModel):
    """Holds the comparison of two configurations on the same queries."""

    before: str
    after: str
    metric: str
    group: str
    paired: Paired


class GateScatter(ReportModel):
    """Holds what the complexity gate predicted for each query and what the text pass reached (NEEDLE, figure 5c)."""

    configuration: str = Field(description="Configuration in which the gate was asked.")
    predicted: list[float | None] = Field(description="Predicted average precision of each query; null where not asked.")
    actual: list[float | None] = Field(description="Average precision of the text pass of each query; null where it failed.")
    queries: int = Field(description="Queries with both.")
    pearson: float | None = Field(description="Correlation of the two; null where one of them does not vary.")

    @classmethod
    def of(cls, configuration: str, predicted: Sequence[float | None], actual: Sequence[float | None]) -> GateScatter:
        """Return the scatter of two columns of the same queries."""
        both = np.array([pair for pair in zip(predicted, actual, strict=True) if None not in pair], np.float64).reshape(-1, 2)
        apart = both - both.mean(0) if len(both) else both
        length = float(np.prod(np.sqrt((apart**2).sum(0))))
        return cls(
            configuration=configuration,
            predicted=list(predicted),
            actual=list(actual),
            queries=len(both),
            pearson=float(apart.prod(1).sum()) / length if length > 0 else None,
        )


class EvalReport(ReportModel):
    """Holds the report of one run of `lodestone eval`."""

    format: int = FORMAT
    created_at: datetime
    lodestone: str
    benchmark: str
    kind: Literal["ranking", "pairs"]
    split: str | None
    pictures: int
    gallery: str = Field(description="Digest of the pictures' names and of which have captions: equal for comparable runs.")
    described: int = Field(description="Pictures with a caption or tag in the index.")
    skipped: dict[str, int]
    selection: dict[str, Any]
    profile: str
    models: dict[str, str] = Field(description="Backbone, text encoder or space -> version.")
    settings: dict[str, Any]
    home: str
    index: dict[str, float]
    queries: list[QueryRow]
    configurations: list[ConfigurationResult]
    comparisons: list[Comparison]
    gate: GateScatter | None = None
    notes: list[str] = Field(default_factory=list)

    @property
    def metric(self) -> str:
        """Return the metric by which configurations are compared."""
        return "map" if self.kind == "ranking" else "pairing"

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the names of all metrics, in the report's order."""
        return RANKING_METRICS if self.kind == "ranking" else PAIR_METRICS

    def configuration(self, name: str) -> ConfigurationResult | None:
        """Return the results of the configuration with this name, or None when it was not run."""
        return next((result for result in self.configurations if result.name == name and result.skipped is None), None)


def group_names(rows: Iterable[QueryRow]) -> list[str]:
    """Return the sub-sets of some queries, in the order of reports: all, hard, by description, by label."""
    known = (HARD, "described", "mixed", "undescribed")
    names = {name for row in rows for name in row.sets}
    return [ALL, *sorted(names, key=lambda name: (known.index(name) if name in known else len(known), name))]


def load_report(path: Path) -> EvalReport:
    """Read a report that `save` wrote.

    Raises:
        NotFoundError: there is no such file.
        InvalidRequestError: the file is no report, or of a newer format.
    """
    try:
        report = EvalReport.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise NotFoundError(f"no report {str(path)!r}", hint="lodestone eval NAME --data DIR --report FOLDER") from error
    except IsADirectoryError as error:
        raise InvalidRequestError(f"{str(path)!r} is a folder", hint="name the report.json in it") from error
    except (OSError, ValidationError) as error:
        raise InvalidRequestError(f"{str(path)!r} is no evaluation report", hint="give a report.json") from error
    if report.format > FORMAT:
        raise InvalidRequestError(f"{str(path)!r} was written by a newer Lodestone", hint=f"format {report.format}")
    return report


def compare_reports(before: EvalReport, after: EvalReport) -> list[Comparison]:
    """Compare configurations of the same name on the queries that both runs answered, for each sub-set of the first run.

    Raises:
        InvalidRequestError: the benchmarks differ, or there is no common query or configuration.
    """
    if (before.benchmark, before.kind) != (after.benchmark, after.kind):
        raise InvalidRequestError(
            f"{before.benchmark!r} and {after.benchmark!r} have no queries in common", hint="compare runs of one benchmark"
        )
    comparisons: list[Comparison] = []
    for result in before.configurations:
        other = after.configuration(result.name)
        if result.skipped is None and other is not None:
            comparisons += _compare(before.queries, result, after.queries, other, metric=before.metric)
    if not comparisons:
        raise InvalidRequestError("the two reports have no answered query in common", hint="same --split, --limit and --seed?")
    return comparisons


def differences(before: EvalReport, after: EvalReport) -> list[str]:
    """Return what differs between two runs besides the results, each in a sentence."""
    sentences = []
    if before.gallery != after.gallery:
        sentences.append(
            f"the collections differ: {before.pictures:,} pictures, {before.described:,} of them described, then "
            f"{after.pictures:,} and {after.described:,}"
        )
    for what, first, second in (
        ("version of Lodestone", {"": before.lodestone}, {"": after.lodestone}),
        ("profile", {"": before.profile}, {"": after.profile}),
        ("model", before.models, after.models),
        ("setting", flatten(before.settings), flatten(after.settings)),
        ("selection", before.selection, after.selection),
    ):
        sentences += (
            f"{what} {name}: {first.get(name)}, then {second.get(name)}".replace(" :", ":")
            for name in sorted(first.keys() | second.keys())
            if first.get(name) != second.get(name)
        )
    return sentences


def compare_configurations(
    queries: Sequence[QueryRow], before: ConfigurationResult, after: ConfigurationResult, *, metric: str
) -> list[Comparison]:
    """Compare two configurations of one run, for all queries and for each sub-set."""
    return _compare(queries, before, queries, after, metric=metric)


def _compare(
    rows_before: Sequence[QueryRow],
    before: ConfigurationResult,
    rows_after: Sequence[QueryRow],
    after: ConfigurationResult,
    *,
    metric: str,
) -> list[Comparison]:
    first = {row.query_id: (row, value) for row, value in zip(rows_before, before.values[metric], strict=True)}
    second: Mapping[str, float | None] = {
        row.query_id: value for row, value in zip(rows_after, after.values[metric], strict=True)
    }
    common = [
        (row, value, other)
        for query_id, (row, value) in first.items()
        if value is not None and (other := second.get(query_id)) is not None
    ]
    comparisons = []
    for group in group_names([row for row, _, _ in common]):
        members = [entry for entry in common if group == ALL or group in entry[0].sets]
        if members:
            paired = compare_paired(
                np.array([value for _, value, _ in members]),
                np.array([other for _, _, other in members]),
                [row.group for row, _, _ in members],
            )
            comparisons.append(Comparison(before=before.name, after=after.name, metric=metric, group=group, paired=paired))
    return comparisons
