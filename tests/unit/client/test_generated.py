"""The client for ordinary code is what is made of the asynchronous one."""

from __future__ import annotations

import pytest
from scripts import sync_client


def test_the_committed_client_is_what_is_made_of_the_asynchronous_one():
    assert sync_client.stale() == []


def test_a_change_of_either_file_is_noticed(tmp_path, monkeypatch):
    root = tmp_path / "core" / "lodestone" / "client"
    root.mkdir(parents=True)
    source, target = root / "async_lists.py", root / "sync_lists.py"
    source.write_text("async def first() -> int:\n    return await second()\n")
    monkeypatch.setattr(sync_client, "ROOT", tmp_path)
    monkeypatch.setattr(sync_client, "FOLDER", root)
    assert sync_client.stale() == ["core/lodestone/client/sync_lists.py"]
    assert sync_client.main([]) == 0
    assert target.read_text().endswith("def first() -> int:\n    return second()\n")
    assert sync_client.stale() == []
    target.write_text(target.read_text().replace("second", "third"))
    assert sync_client.main(["--check"]) == 1
    source.unlink()
    assert sync_client.stale() == ["core/lodestone/client/sync_lists.py"]


def test_what_would_stay_asynchronous_is_named():
    with pytest.raises(ValueError, match=r"asyncore.*scripts/sync_client"):
        sync_client.synchronous("x = 1\nimport asyncore\n")
