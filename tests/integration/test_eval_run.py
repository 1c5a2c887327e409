"""What an evaluation asks of an engine, and what it makes of answers: a scripted engine over a real home."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.support.eval_fixtures import LAYOUTS
from tests.support.home import open_runtime

from lodestone.config.settings import Settings, StoreSettings
from lodestone.errors import DeadlineExceededError
from lodestone_eval.registry import read_benchmark
from lodestone_eval.report import EvalReport
from lodestone_eval.run import EvalOptions, evaluate, evaluation_settings
from lodestone_eval.staging import index_set
from lodestone_schemas.api import GateDecision, Hit, SearchRequest, SearchResponse

Rank = Callable[[SearchRequest], Sequence[str]]


class _Scripted:
    """Answers with the pictures that a rule names, in that order; remembers what it was asked."""

    def __init__(self, ids: dict[str, str], rank: Rank, *, gate: bool = False) -> None:
        self._ids, self._rank, self._gate = ids, rank, gate
        self.asked: list[SearchRequest] = []

    async def answer(self, request: SearchRequest) -> SearchResponse:
        self.asked.append(request)
        names = self._rank(request)
        verdict = (
            GateDecision(verdict="simple", predicted_ap=0.9, threshold=0.5, why="") if self._gate and request.gate else None
        )
        return SearchResponse(
            query_id="q",
            stage="text",
            hits=[_hit(place, self._ids[name]) for place, name in enumerate(names, 1)],
            fusion="weighted_reciprocal_rank",
            space_weights={},
            gate=verdict,
            dropped=[f"more guides: stable after {len(self.asked)}"],
            timings_ms={"total": 5.0},
        )


def _hit(place: int, image_id: str) -> Hit:
    about = {"corpus": "c", "root": "r", "uri": "u", "width": 1, "height": 1, "thumbnail": "t"}
    return Hit(rank=place, image_id=image_id, score=1 / place, **about)  # type: ignore[arg-type]


def _evaluate(fixture: str, folder: Path, rank: Rank, *, gate: bool = False, **options: object) -> tuple[EvalReport, _Scripted]:
    name, write = LAYOUTS[fixture]
    write(folder / "data")
    evalset = read_benchmark(name, folder / "data")
    with open_runtime(folder) as runtime:
        indexed = index_set(runtime, evalset)
        engine = _Scripted({name: image_id for image_id, name in indexed.names.items()}, rank, gate=gate)
        return evaluate(runtime, evalset, indexed, EvalOptions(**options), engine=engine), engine  # type: ignore[arg-type]


def test_each_configuration_asks_for_what_it_says(tmp_path: Path) -> None:
    report, engine = _evaluate("names", tmp_path, lambda _: ["one.jpg"], ablate=("gate", "embedders"), seed=4)
    flags = {one.name: one.request for one in report.configurations}
    asked = [(one.guides, one.gate, one.outliers, one.adaptive, one.spaces) for one in engine.asked[::2]]
    assert asked == [
        (0, False, False, False, None),  # text
        (None, None, None, None, None),  # full: what users get
        (None, True, True, True, None),  # everything
        (None, False, True, True, None),  # everything - gate
        (None, None, None, None, ["bridge"]),
        (None, None, None, None, ["labels"]),
    ]
    assert flags["everything - gate"]["gate"] is False
    assert {(one.limit, one.seed, one.deadline_ms) for one in engine.asked} == {(60, 4, 600_000)}
    assert {tuple(one.filters.corpora) for one in engine.asked} == {("evaluation-names",)}


def test_a_query_that_fails_is_counted_and_left_out_of_the_means(tmp_path: Path) -> None:
    def rank(request: SearchRequest) -> list[str]:
        if request.query == "cat":
            raise DeadlineExceededError("too late")
        return ["one.jpg", "two.jpg"]

    report, _ = _evaluate("names", tmp_path, rank, run=("text",))
    text = report.configurations[0]
    assert text.failures == {"deadline_exceeded": 1}
    assert text.values["map"] == [None, 0.5]
    assert (text.groups[0].queries, text.groups[0].metrics["map"].mean) == (1, 0.5)
    assert text.remarks == {"more guides: stable after #": 1}


def test_an_engine_that_answers_nothing_at_all_ends_the_run(tmp_path: Path) -> None:
    def rank(_: SearchRequest) -> list[str]:
        raise DeadlineExceededError("too late")

    with pytest.raises(DeadlineExceededError):
        _evaluate("names", tmp_path, rank)


def test_what_the_gate_stopped_is_reported_and_an_idle_gate_is_told(tmp_path: Path) -> None:
    busy, _ = _evaluate("names", tmp_path / "busy", lambda _: ["one.jpg"], run=("everything",), gate=True)
    assert busy.configuration("everything").simple == 1.0  # type: ignore[union-attr]
    assert busy.notes == []
    idle, _ = _evaluate("names", tmp_path / "idle", lambda _: ["one.jpg"], run=("everything",), ablate=("guides",))
    assert [note.split(":")[0] for note in idle.notes] == ["the gate decided nothing in everything"]


def test_pairs_are_asked_two_pictures_at_a_time(tmp_path: Path) -> None:
    def rank(request: SearchRequest) -> list[str]:
        folder = request.filters.path_prefix
        if folder is None:
            return ["ex_0/ex_0_img_0.png", "ex_1/ex_1_img_1.png", "ex_0/ex_0_img_1.png", "ex_1/ex_1_img_0.png"]
        both = [f"{folder}/{folder}_img_0.png", f"{folder}/{folder}_img_1.png"]
        return both if request.query == "a cat" else both[::-1] if folder == "ex_0" else both[:1]

    report, engine = _evaluate("winoground", tmp_path, rank, run=("text",))
    among_all = [(None, 60)] * 4
    assert [(one.filters.path_prefix, one.limit) for one in engine.asked] == [("ex_0", 2)] * 2 + [("ex_1", 2)] * 2 + among_all
    text = report.configurations[0]
    assert text.values == {
        "pairing": [1.0, 0.5],
        "image": [1.0, 0.0],
        "text": [1.0, 0.0],
        "group": [1.0, 0.0],
        "mrr": [pytest.approx((1 + 1 / 3) / 2), pytest.approx((1 / 4 + 1 / 2) / 2)],  # places 1, 3 and 4, 2 of all four
    }


def test_judged_runs_look_deeper_and_others_do_not(tmp_path: Path) -> None:
    both = ["val2017/000000037777.jpg", "val2017/000000397133.jpg"]
    for judged, limit, values in ((False, 60, [0.5, 0.5]), (True, 200, [0.5, 1.0])):
        report, engine = _evaluate("lvis", tmp_path / str(judged), lambda _: both, run=("text",), judged=judged)
        assert {one.limit for one in engine.asked} == {limit}
        assert report.configurations[0].values["map"] == values


def test_an_evaluation_leaves_no_trace_and_touches_no_other_home(tmp_path: Path) -> None:
    user = Settings(home=tmp_path / "mine", catalog_url="postgresql://somewhere/else", store=StoreSettings(kind="server"))
    found = evaluation_settings(user, tmp_path / "eval", temporary=True)
    assert (found.home, found.catalog_url, found.store.kind) == (tmp_path / "eval", None, "edge")
    assert (found.query.history, found.tags.implicit) == (0, False)
    assert evaluation_settings(user, tmp_path / "eval", temporary=False).store.kind == "server"
