"""Submissions of CIRR and CIRCO: the form that the servers take, and what they would refuse."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.composed_fixtures import COMPOSED_LAYOUTS

from lodestone.errors import InvalidRequestError, NotFoundError, UnknownNameError
from lodestone_eval.composed.answers import rank_all, report_of
from lodestone_eval.composed.queries import ComposedSet
from lodestone_eval.composed.submission import read_submission, write_submissions
from lodestone_eval.registry import read_composed


def _read(name: str, root: Path) -> tuple[ComposedSet, list[list[str] | None]]:
    order = COMPOSED_LAYOUTS[name](root).order
    composed = read_composed(name, root)
    return composed, rank_all(composed, lambda query, depth: order, depth=None)[0]


def test_cirr_takes_two_files_of_picture_names(tmp_path: Path) -> None:
    composed, rankings = _read("cirr", tmp_path)
    recall, subset = write_submissions(composed, rankings, tmp_path / "out")
    assert json.loads(recall.read_text()) == {
        "version": "rc2",
        "metric": "recall",
        "12": [f"dev-{number}-0-img0" for number in (4, 2, 1, 3, 5)],  # without the reference
        "13": [f"dev-{number}-0-img0" for number in (4, 2, 0, 3, 5)],
    }
    assert json.loads(subset.read_text()) == {
        "version": "rc2",
        "metric": "recall_subset",
        "12": [f"dev-{number}-0-img0" for number in (2, 1, 3)],
        "13": [f"dev-{number}-0-img0" for number in (2, 0, 3)],
    }
    found, measured = read_submission(composed, subset)
    assert measured == "recall_subset"
    report = report_of(composed, found, method="file", metrics=("subset@1", "subset@2", "subset@3"))
    assert [value.mean for value in report.groups[0].metrics.values()] == [0.0, 0.5, 1.0]


def test_circo_takes_picture_numbers(tmp_path: Path) -> None:
    composed, rankings = _read("circo", tmp_path)
    (path,) = write_submissions(composed, rankings, tmp_path / "out")
    assert json.loads(path.read_text()) == {"0": [3, 4, 2, 5, 1, 6], "1": [3, 4, 2, 5, 1, 6]}
    found, _ = read_submission(composed, path)
    assert report_of(composed, found, method="file", metrics=("map@5",)).groups[0].metrics["map@5"].mean == pytest.approx(
        (5 / 6 + 1 / 4) / 2
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"version": "rc1"}, '"version"'),
        ({"metric": "map"}, '"metric"'),
        ({"12": None}, "query '12' are no list"),
        ({"12": ["dev-1-0-img0", "dev-1-0-img0"]}, "names a picture twice"),
        ({"12": [f"a{number}" for number in range(51)]}, "51 results, and the server takes 50"),
        ({"99": []}, "1 queries that the split does not have"),
    ],
)
def test_what_the_server_would_refuse_is_named(change: dict[str, Any], problem: str, tmp_path: Path) -> None:
    composed, rankings = _read("cirr", tmp_path)
    path, _ = write_submissions(composed, rankings, tmp_path / "out")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InvalidRequestError, match=problem) as caught:
        read_submission(composed, path)
    assert "--submission" in caught.value.hint


def test_missing_queries_files_and_benchmarks_are_named(tmp_path: Path) -> None:
    composed, rankings = _read("cirr", tmp_path)
    path, _ = write_submissions(composed, rankings, tmp_path / "out")
    path.write_text(json.dumps({"version": "rc2", "metric": "recall", "13": []}))
    with pytest.raises(InvalidRequestError, match="1 of 2 queries are missing, the first is '12'"):
        read_submission(composed, path)
    path.write_text("{")
    with pytest.raises(InvalidRequestError, match="no JSON"):
        read_submission(composed, path)
    with pytest.raises(NotFoundError):
        read_submission(composed, tmp_path / "nowhere.json")
    other, its_rankings = _read("icir", tmp_path / "icir")
    with pytest.raises(UnknownNameError):
        write_submissions(other, its_rankings, tmp_path)
    with pytest.raises(InvalidRequestError, match="query 12 has 0 results"):
        write_submissions(composed, [None, rankings[1]], tmp_path / "out")
