"""Whether a run is lost, and whether what is loaded by a service counts as loaded."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from lodestone.indexing.run.unfinished import _is_lost, is_loaded

ELSEWHERE = "another-machine:1"
HERE = f"{socket.gethostname()}:{os.getpid()}"


@pytest.mark.parametrize(
    ("worker", "silent_s", "lost"),
    [(ELSEWHERE, 0, False), (ELSEWHERE, 50, False), (ELSEWHERE, 70, True), (HERE, 50, False), (HERE, 70, True)],
    ids=["elsewhere, beating", "elsewhere, late", "elsewhere, silent", "here, late", "here, silent"],  # not a process id
)
def test_a_run_that_was_not_heard_of_for_a_minute_is_lost(worker: str, silent_s: float, lost: bool) -> None:
    run: Any = SimpleNamespace(worker=worker, heartbeat_at=datetime.now(UTC) - timedelta(seconds=silent_s))
    assert _is_lost(run) is lost


def test_a_run_whose_process_ended_is_lost_at_once_and_one_that_never_beat_elsewhere_is_not() -> None:
    ended: Any = SimpleNamespace(worker=f"{socket.gethostname()}:{2**22 + 1}", heartbeat_at=datetime.now(UTC))
    silent: Any = SimpleNamespace(worker=ELSEWHERE, heartbeat_at=None)
    assert _is_lost(ended) and not _is_lost(silent)


@pytest.mark.parametrize(
    ("aliases", "unloaded", "lacks_facts", "loaded"),
    [
        ({"bridge": "bridge-1", "labels": "labels-1"}, 0, False, True),
        ({"bridge": "bridge-1", "labels": "labels-1"}, 0, True, False),
        ({"bridge": "bridge-1", "labels": "labels-1"}, 1, False, False),
        ({"bridge": "bridge-1", "labels": "labels-0"}, 0, False, False),
        ({"bridge": "bridge-1"}, 0, False, False),
        ({}, 0, False, False),
    ],
)
def test_what_a_service_loads_is_loaded_when_aliases_and_receipts_say_so(
    aliases: dict[str, str], unloaded: int, lacks_facts: bool, loaded: bool
) -> None:
    catalog = SimpleNamespace(
        lacks_facts=lambda _version: lacks_facts,
        alias_table=lambda: SimpleNamespace(all=lambda: aliases),
        count_unloaded=lambda collection: (unloaded if collection == "labels-1" else 0, 0),
    )
    projections = {name: SimpleNamespace(collection=f"{name}-1") for name in ("bridge", "labels")}
    resources: Any = SimpleNamespace(
        catalog=catalog, settings=SimpleNamespace(store=SimpleNamespace(kind="edge")), projections=lambda: projections
    )
    assert is_loaded(resources, served=True) is loaded
