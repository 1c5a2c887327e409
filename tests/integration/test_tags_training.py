"""A gate is fitted from judged queries in a home of its own, with real models, and its use leaves nothing else behind."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tests.support.homes import home_settings, index, write_pictures

from lodestone.catalog.use_records import QueryRecord
from lodestone.home.runtime import Runtime
from lodestone.indexing.progress import ProgressEvent, RunStage
from lodestone.training.retrain_gate import TRAINING, train_complexity


def test_gate_is_fitted_from_judged_queries_and_put_in_force(tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    write_pictures(pictures, drawn=40)
    names = sorted(path.name for path in pictures.rglob("*") if path.is_file())
    index(home_settings(tmp_path / "home"), pictures)
    judgements = {f"picture of {name.rsplit('.', 1)[0]}": [name] for name in names}

    with Runtime.open(home_settings(tmp_path / "home")) as runtime:
        runtime.catalog.add_query(QueryRecord("kept", datetime.now(UTC), "words", "a cat", None, {}, b""), 10)
    with Runtime.open(home_settings(tmp_path / "home", **TRAINING)) as runtime:
        before = runtime.gate().version
        seen: list[ProgressEvent] = []
        report = train_complexity(runtime, {**judgements, "elsewhere": ["gone.jpg"]}, progress=seen.append)
        assert {event.stage for event in seen} == {RunStage.ASK}

        assert (report.judged, report.feedback, report.unknown) == (len(judgements), 0, ("gone.jpg",))
        assert runtime.gate().version == report.fit.version != before
        assert {"bridge", "labels"} <= runtime.gate().methods
        assert report.fit.compared == len(judgements)
        assert [query.query_id for query in runtime.catalog.queries(0, 10)] == ["kept"]
        assert runtime.tags.list().tags == []
