"""NEEDLE's tables against values worked out by hand from the places of the right pictures (NEEDLE, H.3)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from lodestone.errors import UnknownNameError
from lodestone_eval.ask import EvaluatedAnswer
from lodestone_eval.configurations import Configuration, check_names, make_configurations
from lodestone_eval.datasets.base import EvalPair, EvalQuery, EvalSet
from lodestone_eval.markdown import to_markdown
from lodestone_eval.measured import Measured, measure_pairs, measure_ranking, query_rows, result_of
from lodestone_eval.needle_tables import NeedleTable, needle_tables
from lodestone_eval.needle_variants import NeedleSetup
from lodestone_eval.report import EvalReport, GateScatter

_NAMES = tuple(f"{number}.jpg" for number in range(70))
_MANY = EvalQuery("many", "a thing of which there are twelve", frozenset(_NAMES[:12]))
_SINGLE = EvalQuery("single", "a thing of which there is one", frozenset(_NAMES[20:21]))
_QUERIES = (_MANY, _SINGLE)
_SETUP = NeedleSetup(("eva", "regnet", "dino", "clip", "convnext", "beit"), ("flux", "realvis"), ("replicate", "diffusers"))


def _answer(query: EvalQuery, places: Sequence[int], *, predicted: float | None = None) -> EvaluatedAnswer:
    """An answer of sixty results with right pictures at these places."""
    right = iter(sorted(query.relevant))
    wrong = iter(name for name in _NAMES if name not in query.relevant)
    names = tuple(next(right) if place in places else next(wrong) for place in range(1, 58))
    return EvaluatedAnswer(names, predicted_ap=predicted, guides=9)


# Configuration -> places of the right pictures of `many` and of `single`. Their average precision is, by hand:
#   many 1, 2, 3, 11, 12: (1 + 1 + 1 + 4/11 + 5/12) / 10 = .3780; 1 to 10: 1; 1 to 5: .5; 2, 4, ... 20: .5; 1 to 8: .8
#   single at 2: .5; at 1: 1; at 4: .25
_FIRST_TEN = tuple(range(1, 11))
_FIVE, _EIGHT, _EVEN = tuple(range(1, 6)), tuple(range(1, 9)), tuple(range(2, 21, 2))
_PLACES: dict[str, tuple[Sequence[int], Sequence[int]]] = {
    "text": ((1, 2, 3, 11, 12), (2,)),
    "needle": (_FIRST_TEN, (1,)),
    "needle-gate": (_FIRST_TEN, (2,)),
    "needle-trust": (_EIGHT, (1,)),
    "needle - outliers": (_FIVE, (1,)),
    "needle, m=1, l=1": (_FIVE, (4,)),
    "needle, m=1, l=2": (_FIVE, (2,)),
    "needle, m=1, l=4": (_EIGHT, (2,)),
    "needle, m=1, l=6": (_EIGHT, (2,)),
    "needle, m=2, l=1": (_EVEN, (2,)),
    "needle, m=2, l=2": (_EVEN, (1,)),
    "needle, m=2, l=4": (_EIGHT, (1,)),
    "needle, m=2, l=6": (_FIRST_TEN, (2,)),
    "needle, m=3, l=1": (_FIVE, (1,)),
    "needle, m=3, l=2": (_EIGHT, (2,)),
    "needle, m=3, l=4": (_EIGHT, (1,)),
    "needle, engines=1": (_FIVE, (2,)),
    "needle, size=256": (_FIVE, (2,)),
    "needle, size=512": (_EIGHT, (2,)),
    "needle, size=1024": (_EIGHT, (1,)),
}


def _configurations() -> list[Configuration]:
    run = ("text", "needle", "needle-gate", "needle-trust")
    return make_configurations(run, ("m", "l", "engines", "size", "outliers"), spaces=["bridge"], needle=_SETUP)


def _report(
    evalset: EvalSet, configurations: Sequence[Configuration], measured: dict[str, Measured], **more: object
) -> EvalReport:
    rows = query_rows(evalset, measured["text"], frozenset())
    fields: dict[str, object] = {
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "lodestone": "0",
        "benchmark": evalset.name,
        "kind": evalset.kind,
        "split": None,
        "pictures": len(_NAMES),
        "gallery": "g",
        "described": 0,
        "skipped": {},
        "selection": {},
        "profile": "accurate",
        "models": {},
        "settings": {},
        "home": "temporary",
        "index": {},
        "queries": rows,
        "configurations": [result_of(one, measured.get(one.name), rows) for one in configurations],
        "comparisons": [],
        **more,
    }
    return EvalReport.model_validate(fields)


def _ranking_report() -> EvalReport:
    evalset = EvalSet("lvis", "ranking", None, {name: Path(name) for name in _NAMES}, _QUERIES)
    configurations = _configurations()
    measured = {
        one.name: measure_ranking(
            _QUERIES, [_answer(query, places) for query, places in zip(_QUERIES, _PLACES[one.name], strict=True)], judged=False
        )
        for one in configurations
        if one.skipped is None
    }
    gate = GateScatter.of("needle-gate", [0.1, 0.7], measured["text"].values["map"])
    return _report(evalset, configurations, measured, gate=gate)


def _table(tables: Sequence[NeedleTable], title: str) -> NeedleTable:
    return next(table for table in tables if title in table.title)


def test_table_one_gives_the_papers_four_metrics_for_all_and_for_hard_queries() -> None:
    """Only `many` is hard: the words reach .378 there, and exactly .5 for `single`."""
    table = _table(needle_tables(_ranking_report()), "table 1")
    assert table.head == ("", "R@10", "P@10", "MAP", "MRR")
    assert table.rows == (
        # R@10: (3/10 + 1) / 2; P@10: (3/10 + 1/10) / 2; MAP: (.3780 + .5) / 2; MRR: (1 + 1/2) / 2
        ("text", "0.650 / 0.300", "0.200 / 0.300", "0.439 / 0.378", "0.750 / 1.000"),
        ("needle", "1.000 / 1.000", "0.550 / 1.000", "1.000 / 1.000", "1.000 / 1.000"),
        ("needle-gate", "1.000 / 1.000", "0.550 / 1.000", "0.750 / 1.000", "0.750 / 1.000"),
        ("needle-trust", "0.900 / 0.800", "0.450 / 0.800", "0.900 / 0.800", "1.000 / 1.000"),
    )


def test_figure_four_gives_map_for_every_m_and_l() -> None:
    table = _table(needle_tables(_ranking_report()), "figure 4")
    assert table.head == ("", "l=1", "l=2", "l=4", "l=6")
    assert table.rows == (
        ("m=1", "0.375", "0.500", "0.650", "0.650"),  # (.5 + .25)/2, (.5 + .5)/2, (.8 + .5)/2 twice
        ("m=2", "0.500", "0.750", "0.900", "0.750"),  # (.5 + .5)/2, (.5 + 1)/2, (.8 + 1)/2, (1 + .5)/2
        ("m=3", "0.750", "0.650", "0.900", "1.000"),  # (.5 + 1)/2, (.8 + .5)/2, (.8 + 1)/2, `needle` itself
    )


def test_engines_sizes_and_the_outlier_filter_have_their_tables() -> None:
    tables = needle_tables(_ranking_report())
    assert _table(tables, "figure 6a").rows == (("1", "0.500"), ("2", "1.000"))
    assert _table(tables, "figure 6b").rows == (("256", "0.500"), ("512", "0.650"), ("1024", "0.900"))
    assert _table(tables, "table 4").rows == (("0.750", "1.000"),)


def test_the_gates_scatter_compares_what_it_predicts_with_what_the_words_reach() -> None:
    """The words reach .378 and .5, the gate predicted .1 and .7: two points lie on a rising line, so r is 1."""
    table = _table(needle_tables(_ranking_report()), "figure 5c")
    assert table.title.endswith("r = 1.000, n = 2")
    assert table.rows == (("0.0 to 0.2", "1", "0.100", "0.378"), ("0.6 to 0.8", "1", "0.700", "0.500"))


def test_the_gates_correlation_is_pearsons() -> None:
    predicted, actual = [0.0, 0.5, 1.0, None, 0.2], [0.0, 1.0, 0.5, 0.4, None]
    scatter = GateScatter.of("full", predicted, actual)
    # deviations -.5, 0, .5 and -.5, .5, 0: (.25 + 0 + 0) / sqrt(.5 * .5)
    assert (scatter.queries, scatter.pearson) == (3, pytest.approx(0.5))
    assert GateScatter.of("full", [0.3, 0.3], [0.1, 0.9]).pearson is None


def test_pairs_have_table_two_with_both_accuracies_and_their_chance_levels() -> None:
    pairs = (
        EvalPair("first", ("a", "b"), ("0.jpg", "1.jpg")),
        EvalPair("second", ("c", "d"), ("2.jpg", "3.jpg")),
    )
    evalset = EvalSet("cola", "pairs", None, {name: Path(name) for name in _NAMES}, pairs=pairs)

    def order(*names: str) -> EvaluatedAnswer:
        return EvaluatedAnswer(names, tuple(np.linspace(1, 0.5, len(names))))

    among_two = [order("0.jpg", "1.jpg"), order("1.jpg", "0.jpg"), order("2.jpg", "3.jpg"), order("2.jpg", "3.jpg")]
    # places of the right pictures among all: 1, 2, 4, none
    among_all = [
        order("0.jpg"),
        order("9.jpg", "1.jpg"),
        order("9.jpg", "8.jpg", "7.jpg", "2.jpg"),
        order("9.jpg", "8.jpg"),
    ]
    configurations = make_configurations(("text", "needle"), (), spaces=["bridge"], needle=_SETUP, pairs=True)
    measured = {one.name: measure_pairs(evalset, among_two + among_all) for one in configurations if one.skipped is None}
    (table,) = needle_tables(_report(evalset, configurations, measured))
    assert table.head == ("", "PAcc, one caption (chance 0.50)", "PAcc, both captions (chance 0.25)", "MRR")
    # three of four captions, one of two pairs, (1 + 1/2 + 1/4 + 0) / 4
    assert table.rows == (("text", "0.750", "0.500", "0.438"), ("needle", "0.750", "0.500", "0.438"))


def test_the_tables_are_part_of_the_written_report_where_needle_was_run() -> None:
    written = to_markdown(_ranking_report())
    assert "| needle | 1.000 / 1.000 | 0.550 / 1.000 | 1.000 / 1.000 | 1.000 / 1.000 |" in written
    assert "| m=2 | 0.500 | 0.750 | 0.900 | 0.750 |" in written
    plain = _ranking_report()
    without = plain.model_copy(update={"configurations": plain.configurations[:1]})
    assert "NEEDLE" not in to_markdown(without)


def test_variants_ask_for_m_guides_of_each_engine_in_the_most_trusted_embedders() -> None:
    asked = {one.name: one.request for one in _configurations() if one.needle is not None}
    base = asked["needle"]
    assert (base["guides"], base["generators"], base["spaces"]) == (6, ["flux", "realvis"], list(_SETUP.embedders))
    assert (base["fusion"], base["gate"], base["adaptive"], base["tags"], base["trust"], base["outliers"]) == (
        "weighted_reciprocal_rank",
        False,
        False,
        False,
        False,
        True,
    )
    assert (asked["needle, m=1, l=2"]["guides"], asked["needle, m=1, l=2"]["spaces"]) == (2, ["eva", "regnet"])
    assert (asked["needle, engines=1"]["guides"], asked["needle, engines=1"]["generators"]) == (3, ["flux"])
    assert (asked["needle-gate"]["gate"], asked["needle-gate"]["spaces"]) == (True, None)
    assert (asked["needle-trust"]["trust"], asked["needle-trust"]["explain"]) == (True, True)
    assert asked["needle - outliers"]["outliers"] is False
    assert {one.needle.size for one in _configurations() if one.needle is not None} == {None, 256, 512, 1024}


def test_what_needs_an_engine_or_pictures_is_skipped_with_the_reason() -> None:
    no_engine = make_configurations(("needle",), (), spaces=["bridge"], needle=NeedleSetup(("bridge",)))
    assert {one.name: one.skipped for one in no_engine} == {"text": None, "needle": "no guide engine is set up"}
    vectors = NeedleSetup(("bridge", "labels"), ("exemplar",), ("exemplar",))
    sizes = make_configurations(("needle",), ("size", "engines"), spaces=["bridge"], needle=vectors)
    assert {one.skipped for one in sizes if "size" in one.name} == {"no engine draws pictures"}
    pairs = make_configurations(("needle-trust",), (), spaces=["bridge"], needle=_SETUP, pairs=True)
    assert {one.name: one.skipped for one in pairs}["needle-trust"] == "pairs have no feedback"


def test_needle_is_not_run_unless_it_is_asked_for() -> None:
    usual = make_configurations((), ("gate", "outliers"), spaces=["bridge"], needle=_SETUP)
    names = ["text", "captions", "rewrite", "full", "everything", "everything - gate", "everything - outliers"]
    assert [one.name for one in usual] == names
    with pytest.raises(UnknownNameError):
        check_names(("needles",), ())
