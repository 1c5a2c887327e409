"""Measurement of answers: each query's metrics, the sub-sets it belongs to, and the means over each sub-set."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from lodestone_eval.ask import EvaluatedAnswer
from lodestone_eval.compare import estimate
from lodestone_eval.configurations import Configuration
from lodestone_eval.datasets.base import EvalQuery, EvalSet
from lodestone_eval.needle_metrics import PairScores, hard_queries, ranking_metrics, reciprocal_rank, right_places
from lodestone_eval.report import (
    ALL,
    HARD,
    ConfigurationResult,
    GateScatter,
    GroupMetrics,
    QueryRow,
    group_names,
)
from lodestone_eval.selection import target_of

_MOST_LABELS: Final = 12
_SHOWN_REMARKS: Final = 20
_NUMBER: Final = re.compile(r"\d+(\.\d+)?")  # remarks that differ only in their numbers are counted together

Values = dict[str, list[float | None]]


@dataclass(frozen=True, slots=True)
class Measured:
    """Holds the results of one configuration.

    Attributes:
        values: Metric -> value of each query or pair; None where it failed.
        answers: Answers to all requests.
        failures: Error code -> number of requests.
    """

    values: Values
    answers: list[EvaluatedAnswer]
    failures: dict[str, int]


def query_rows(evalset: EvalSet, baseline: Measured, described: frozenset[str]) -> list[QueryRow]:
    """Return the queries or pairs, each with the sub-sets that it belongs to.

    Args:
        evalset: The benchmark.
        baseline: Results of the text pass, which decide which queries are hard.
        described: Names of the pictures with a caption or a tag in the index.
    """
    labels = {query.label for query in evalset.queries} | {pair.label for pair in evalset.pairs}
    labels -= {""}
    labels = labels if 1 < len(labels) <= _MOST_LABELS else set()
    if evalset.kind == "pairs":
        return [
            QueryRow(
                query_id=pair.pair_id,
                text=" | ".join(pair.captions),
                relevant=1,
                group=pair.pair_id,
                sets=[pair.label] if pair.label in labels else [],
            )
            for pair in evalset.pairs
        ]
    precisions = dict(zip((query.query_id for query in evalset.queries), baseline.values["map"], strict=True))
    hard = hard_queries({query_id: value for query_id, value in precisions.items() if value is not None})
    return [
        QueryRow(
            query_id=query.query_id,
            text=query.text,
            relevant=len(query.relevant),
            group=next(iter(query.relevant)) if len(query.relevant) == 1 else query.query_id,
            sets=[
                *([HARD] if query.query_id in hard else []),
                *([target_of(query, described)] if described else []),
                *([query.label] if query.label in labels else []),
            ],
        )
        for query in evalset.queries
    ]


def measure_ranking(queries: Sequence[EvalQuery], answers: list[EvaluatedAnswer], *, judged: bool) -> Measured:
    """Compute the metrics of queries.

    Args:
        queries: The queries.
        answers: The answer to each query, in the same order.
        judged: Whether to ignore results that nobody judged, where the benchmark lists the judged pictures.
    """
    values: Values = {}
    for query, answer in zip(queries, answers, strict=True):
        places = right_places(answer.names, query.relevant, judged=query.judged if judged else None)
        for metric, value in ranking_metrics(places, len(query.relevant)).items():
            values.setdefault(metric, []).append(None if answer.error else value)
    return Measured(values, answers, dict(Counter(answer.error for answer in answers if answer.error)))


def measure_pairs(evalset: EvalSet, answers: list[EvaluatedAnswer]) -> Measured:
    """Compute the metrics of pairs.

    Args:
        evalset: The benchmark.
        answers: The answers to the two captions of each pair among its two pictures, then those among all pictures. A picture
            that is not found scores lowest. The reciprocal rank of a pair is the mean over its captions.
    """
    answers_among_two, answers_among_all = answers[: len(answers) // 2], answers[len(answers) // 2 :]
    values: Values = {}
    for number, pair in enumerate(evalset.pairs):
        of_pair = slice(2 * number, 2 * number + 2)
        pair_answers, among_all = answers_among_two[of_pair], answers_among_all[of_pair]
        table = [[_score(answer, name) for name in pair.pictures] for answer in pair_answers]
        failed = any(answer.error for answer in (*pair_answers, *among_all))
        ranks = [
            reciprocal_rank(right_places(answer.names, {name})) for answer, name in zip(among_all, pair.pictures, strict=True)
        ]
        metrics = {**PairScores(np.array(table, np.float64)).metrics(), "mrr": sum(ranks) / len(ranks)}
        for metric, value in metrics.items():
            values.setdefault(metric, []).append(None if failed else value)
    return Measured(values, answers, dict(Counter(answer.error for answer in answers if answer.error)))


def _score(answer: EvaluatedAnswer, name: str) -> float:
    return dict(zip(answer.names, answer.scores, strict=True)).get(name, -np.inf)


def result_of(configuration: Configuration, measured: Measured | None, rows: Sequence[QueryRow]) -> ConfigurationResult:
    """Return one configuration's entry in the report, without figures where it was not run."""
    about = ConfigurationResult(
        name=configuration.name,
        about=configuration.about,
        against=configuration.against,
        skipped=configuration.skipped,
        request=dict(configuration.request),
        needle=None if configuration.needle is None else asdict(configuration.needle),
    )
    if measured is None:
        return about
    answered = [answer for answer in measured.answers if answer.error is None]
    gates = [answer.gate for answer in answered if answer.gate is not None]
    remarks = Counter(kind for answer in answered for kind in {_NUMBER.sub("#", remark) for remark in answer.remarks})
    times = [answer.ms for answer in answered if answer.ms > 0]
    p50, p95 = np.percentile(times, [50, 95]) if times else (0.0, 0.0)
    return about.model_copy(
        update={
            "groups": _groups(measured.values, rows),
            "values": measured.values,
            "failures": measured.failures,
            "latency_ms": {"p50": round(float(p50), 2), "p95": round(float(p95), 2)} if times else {},
            "guides": _mean([answer.guides for answer in answered]),
            "rejected": _mean([answer.rejected for answer in answered]),
            "simple": _mean([gate == "simple" for gate in gates]) if gates else None,
            "cost": sum(answer.cost for answer in answered),
            "remarks": dict(remarks.most_common(_SHOWN_REMARKS)),
        }
    )


def gate_scatter(evalset: EvalSet, measured: Mapping[str, Measured], baseline: Measured) -> GateScatter | None:
    """Return what the gate predicted for each query beside what the text pass reached; None where no gate was asked.

    Args:
        evalset: The benchmark.
        measured: Results by configuration; the first one with a gate counts.
        baseline: Results of the text pass.
    """
    if evalset.kind == "pairs":
        return None
    for name, result in measured.items():
        predicted = [answer.predicted_ap for answer in result.answers]
        if any(value is not None for value in predicted):
            return GateScatter.of(name, predicted, baseline.values["map"])
    return None


def unguided_notes(configurations: Sequence[Configuration], measured: Mapping[str, Measured]) -> list[str]:
    """Return notes about rankings by guides alone that had no guide for some queries: the words answered those."""
    notes = []
    for configuration in configurations:
        if configuration.needle is None or configuration.name not in measured:
            continue
        answers = measured[configuration.name].answers
        bare = sum(answer.error is None and answer.gate != "simple" and not answer.guides for answer in answers)
        if bare:
            notes.append(f"{configuration.name}: {bare:,} requests got no guide; the words alone answered them")
    return notes


def _groups(values: Values, rows: Sequence[QueryRow]) -> list[GroupMetrics]:
    group_metrics = []
    for group in group_names(rows):
        kept = [
            number
            for number, row in enumerate(rows)
            if (group == ALL or group in row.sets) and next(iter(values.values()))[number] is not None
        ]
        if kept:
            groups = [rows[number].group for number in kept]
            metrics = {
                metric: estimate(np.array([column[number] for number in kept], np.float64), groups)
                for metric, column in values.items()
            }
            group_metrics.append(GroupMetrics(name=group, queries=len(kept), metrics=metrics))
    return group_metrics


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0
