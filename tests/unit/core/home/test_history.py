"""Nothing is kept of the queries of a home whose history was set to 0."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from lodestone.catalog.use_records import QueryRecord
from lodestone.config.settings import QuerySettings, Settings
from lodestone.home.runtime import Runtime


def _open(folder: Path, *, history: int) -> Runtime:
    return Runtime.open(Settings(home=folder / "home", query=QuerySettings(history=history)))


def _recorded(query_id: str) -> QueryRecord:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return QueryRecord(query_id, now, "words", "my neighbour's cat", None, {}, b"trace")


def test_a_history_of_0_removes_what_was_kept_as_soon_as_the_home_is_opened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with _open(tmp_path, history=10) as runtime:
        runtime.catalog.add_query(_recorded("first"), 10)
    with _open(tmp_path, history=1) as runtime:
        assert len(runtime.catalog.queries()) == 1
    with _open(tmp_path, history=0) as runtime:
        assert runtime.catalog.queries() == []
    assert [record.getMessage() for record in caplog.records] == ["deleted 1 recorded queries: query.history is 0"]
    with _open(tmp_path, history=0) as runtime:
        assert runtime.catalog.queries() == []
    assert len(caplog.records) == 1
