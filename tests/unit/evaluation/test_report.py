"""The report: written, read again, compared with another run, drawn; and what is said of files that are none."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lodestone.errors import InvalidRequestError, NotFoundError, UnknownNameError
from lodestone_eval.ask import EvaluatedAnswer
from lodestone_eval.configurations import PARTS, Configuration, make_configurations
from lodestone_eval.datasets.base import EvalQuery, EvalSet
from lodestone_eval.markdown import describe, to_markdown
from lodestone_eval.measured import measure_ranking, query_rows, result_of
from lodestone_eval.plots import draw
from lodestone_eval.report import EvalReport, compare_reports, differences, load_report
from lodestone_schemas.api import SearchRequest

_QUERIES = 40


def _report(*, offset: int = 0, queries: int = _QUERIES, benchmark: str = "captions") -> EvalReport:
    """Queries whose text pass puts the right picture at places 1, 2, 3, 4 in turn, and the full loop `offset` places lower."""
    names = [f"{number}.jpg" for number in range(100)]
    asked = tuple(EvalQuery(f"q{number}", f"query {number}", frozenset({names[number]})) for number in range(queries))
    evalset = EvalSet(benchmark, "ranking", None, {name: Path(name) for name in names}, asked)

    def answers(shift: int) -> list[EvaluatedAnswer]:
        found = []
        for number in range(queries):
            others = [name for name in names if name != names[number]]
            place = number % 4 + shift
            found.append(EvaluatedAnswer((*others[:place], names[number], *others[place:]), ms=10.0 + number))
        found[0] = EvaluatedAnswer(error="deadline_exceeded")
        return found

    measured = {
        "text": measure_ranking(asked, answers(0), judged=False),
        "full": measure_ranking(asked, answers(offset), judged=False),
    }
    rows = query_rows(evalset, measured["text"], frozenset(names[:20]))
    results = [
        result_of(Configuration("text", "", against=""), measured["text"], rows),
        result_of(Configuration("full", ""), measured["full"], rows),
        result_of(Configuration("rewrite", "", skipped="no language model"), None, rows),
    ]
    return EvalReport(
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        lodestone="0",
        benchmark=benchmark,
        kind="ranking",
        split=None,
        pictures=100,
        gallery="g",
        described=20,
        skipped={"malformed rows": 3},
        selection={"seed": 0},
        profile="embedded",
        models={"bridge": "1"},
        settings={},
        home="temporary",
        index={},
        queries=rows,
        configurations=results,
        comparisons=[],
    )


def test_means_are_over_the_queries_that_were_answered_and_by_sub_set() -> None:
    text = _report().configurations[0]
    found = {group.name: (group.queries, round(group.metrics["map"].mean, 6)) for group in text.groups}
    fours = [1 / (number % 4 + 1) for number in range(1, _QUERIES)]
    hard = [value for value in fours if value < 0.5]
    described, others = fours[:19], fours[19:]
    assert found == {
        "all": (39, round(np.mean(fours), 6)),
        "hard": (20, round(np.mean(hard), 6)),
        "described": (19, round(np.mean(described), 6)),
        "undescribed": (20, round(np.mean(others), 6)),
    }
    assert text.failures == {"deadline_exceeded": 1}
    assert text.latency_ms == {"p50": 30.0, "p95": pytest.approx(47.1, abs=0.1)}


def test_a_report_reads_back_as_it_was_written(tmp_path: Path) -> None:
    report = _report()
    report.save(tmp_path / "report.json")
    assert load_report(tmp_path / "report.json") == report


def test_two_runs_are_compared_on_the_queries_that_both_answered() -> None:
    before, after = _report(), _report(offset=1, queries=30)
    found = {(one.after, one.group): one for one in compare_reports(before, after)}
    assert found["text", "all"].paired.queries == 29
    assert found["text", "all"].paired.difference.mean == 0
    worse = found["full", "all"]
    expected = np.mean([1 / (n % 4 + 2) - 1 / (n % 4 + 1) for n in range(1, 30)])
    assert worse.paired.difference.mean == pytest.approx(expected)
    assert (worse.paired.better, worse.paired.worse) == (0, 29)
    assert describe(worse).startswith("the second run is worse than the first: -0.")
    assert ("rewrite", "all") not in found


def test_what_else_differs_between_two_runs_is_said() -> None:
    other = _report().model_copy(update={"models": {"bridge": "2"}, "gallery": "h"})
    said = differences(_report(), other)
    assert any("collections differ" in one for one in said)
    assert "model bridge: 1, then 2" in said
    assert differences(_report(), _report()) == []


def test_runs_of_two_benchmarks_are_not_compared() -> None:
    with pytest.raises(InvalidRequestError, match="nocaps"):
        compare_reports(_report(), _report(benchmark="nocaps"))


@pytest.mark.parametrize("content", ["", "{}", '{"format": 99}', "\x00", "[]"])
def test_a_file_that_is_no_report_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(content)
    with pytest.raises(InvalidRequestError, match=r"report\.json"):
        load_report(path)


def test_missing_reports_and_folders_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        load_report(tmp_path / "none.json")
    with pytest.raises(InvalidRequestError, match="folder"):
        load_report(tmp_path)


def test_the_tables_say_every_figure_and_what_was_not_run() -> None:
    written = to_markdown(_report())
    assert "# captions: 40 queries over 100 pictures" in written
    assert "## undescribed (20 queries)" in written
    assert "`rewrite` was not run: no language model" in written
    assert "3 malformed rows" in written
    assert written.count("| `full` |") == 4


def test_plots_are_pictures_with_something_on_them(tmp_path: Path) -> None:
    paths = draw(_report(offset=1), tmp_path)
    assert [path.name for path in paths] == ["bars.png", "histogram.png"]
    for path in paths:
        with Image.open(path) as picture:
            assert picture.width > 500
            assert len(picture.convert("RGB").resize((200, 150)).getcolors(1 << 16) or ()) > 20


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    code = (
        "import sys; import lodestone_cli.commands.evaluation.rankings; "
        "sys.exit(sorted({'numpy','matplotlib','scipy','torch','sklearn','pydantic'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_each_part_is_left_out_on_its_own() -> None:
    made = {one.name: one for one in make_configurations([], ["gate", "tags", "embedders"], spaces=["bridge", "labels"])}
    baselines = ["text", "captions", "rewrite", "full", "everything"]
    assert list(made) == [*baselines, "everything - gate", "full - tags", "full, bridge alone", "full, labels alone"]
    assert made["everything - gate"].request == {"gate": False, "outliers": True, "adaptive": True}
    assert made["full, labels alone"].request["spaces"] == ["labels"]
    assert (made["everything - gate"].against, made["full - tags"].against) == ("everything", "full")
    assert [one.name for one in make_configurations(["full"], [], spaces=[])] == ["text", "full"]


def test_full_is_what_users_get_and_everything_is_on_in_everything() -> None:
    made = {one.name: one for one in make_configurations(["full", "everything"], [], spaces=[])}
    assert made["full"].request == {}, "the defaults of profile and settings"
    assert made["everything"].request == {"gate": True, "outliers": True, "adaptive": True}


def test_every_part_can_be_left_out_of_a_search() -> None:
    configurations = {one.name: one for one in make_configurations(["full"], PARTS, spaces=["bridge"])}
    made = [one for one in configurations.values() if one.against in ("full", "everything")]
    assert len(made) == len(PARTS)
    for one in made:
        request, base = (SearchRequest(query="x", **asked.request) for asked in (one, configurations[one.against]))
        assert one.skipped is None
        assert len([name for name in SearchRequest.model_fields if getattr(request, name) != getattr(base, name)]) == 1


def test_unknown_parts_and_configurations_are_refused() -> None:
    with pytest.raises(UnknownNameError):
        make_configurations(["all"], [], spaces=[])
    with pytest.raises(UnknownNameError):
        make_configurations([], ["brakes"], spaces=[])
