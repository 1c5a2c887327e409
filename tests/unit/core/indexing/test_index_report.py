"""What a run's row keeps of its request, and the rate of its report."""

from __future__ import annotations

from pathlib import Path

import pytest

from lodestone.indexing.run.report import IndexReport, IndexRequest


def test_a_request_is_remembered_with_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = IndexRequest((Path("photos"), "https://example.org/a.jpg"), "family", Path("captions.tsv"), retry_failed=True)
    again = IndexRequest.remembered(kept.as_dict())
    assert again.paths == (tmp_path / "photos", "https://example.org/a.jpg")
    assert again.captions == tmp_path / "captions.tsv"
    assert (again.corpus, again.retry_failed, again.resume) == ("family", True, None)
    bare = IndexRequest((Path("photos"),))
    assert IndexRequest.remembered(bare.as_dict()) == IndexRequest((tmp_path / "photos",))


def test_the_rate_is_pictures_a_second_over_the_whole_run() -> None:
    report = IndexReport("run", "family", {"embedded": 30, "new": 40}, images=50, seconds=12.0, embed_seconds=3.0)
    assert report.rate == pytest.approx(2.5)
    assert IndexReport("run", "family", {"embedded": 30}, images=50, seconds=0.0).rate == 0.0
    assert IndexReport("run", "family", {}, images=50, seconds=12.0).rate == 0.0
