"""A run tells its progress while it runs, and what its stages did afterwards: in the report, the catalog, the API, the CLI."""

from __future__ import annotations

import time
from pathlib import Path

from tests.support.cli import lodestone
from tests.support.home import open_runtime
from tests.support.pictures import write_photos

from lodestone.indexing.heartbeat import Heartbeat
from lodestone.indexing.progress import ProgressEvent, RunStage, silent
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.stage_stats import EmbedStage, StageShare
from lodestone.services.runs import _described
from lodestone.services.sessions.home_facts import home_facts

STAGES = ["fetch", "decode", "embed", "write"]


def test_a_finished_run_tells_what_its_stages_did(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 24)
    with open_runtime(tmp_path) as runtime:
        report = index_paths(runtime, IndexRequest((tmp_path / "photos",)))
        assert [(share.stage.value, share.pictures) for share in report.stages] == [(stage, 24) for stage in STAGES]
        told = report.as_dict()
        assert [stage["stage"] for stage in told["stages"]] == STAGES
        assert told["limited_by"] in {None, *STAGES}
        info = _described(runtime.catalog, runtime.catalog.run(report.run_id))
        assert info.progress is not None
        assert [(stage.stage, stage.pictures) for stage in info.progress.stages] == [(stage, 24) for stage in STAGES]
        again = index_paths(runtime, IndexRequest((tmp_path / "photos",)))
        assert again.stages == ()
        assert again.limited_by is None


def test_a_running_run_is_heard_of_wherever_it_runs(tmp_path: Path) -> None:
    share = StageShare(EmbedStage.FETCH, 50, 4.9, 1, 5.0, waiting=9)
    with open_runtime(tmp_path) as runtime:
        catalog = runtime.catalog
        run = catalog.start_run("index", catalog.ensure_corpus("default").corpus_id)
        with Heartbeat(catalog, run.run_id, seconds=0.01) as heartbeat:
            tell = heartbeat.watching(silent)
            tell(ProgressEvent(RunStage.EMBED, done=50, total=200, rate=10.0, eta=15.0, stages=(share,)))
            until = time.monotonic() + 180
            while not catalog.run(run.run_id).progress and time.monotonic() < until:
                time.sleep(0.01)
        catalog.update_run(run.run_id, stage="embed")
        (progress,) = home_facts(runtime, collections={}, jobs=[]).runs["index"].progress
        assert (progress.done, progress.total, progress.limited_by) == (50, 200, "fetch")
        assert progress.stages[0].waiting == 9
    home = tmp_path / "home"
    assert "(embed: 50/200, 10/s, 0:15 left, limited by reading)" in " ".join(lodestone("status", home=home).out.split())
    (row,) = lodestone("status", "--output", "json", home=home).json["runs"]
    assert row["progress"]["limited_by"] == "fetch"
    assert "50 pictures, 10.0/s, 98% busy, 9 waiting" in lodestone("runs", "show", home=home).out
