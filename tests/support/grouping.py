"""Groups of tests for processes side by side: the tests of one file run in one process, and so do all files that need Ray.

A module's fixtures and the Ray cluster therefore start once. pytest-xdist has groups of its own (`--dist loadgroup`), but
version 3.8 writes them into a private attribute that pytest 9.2 no longer reads, so every test would go to any process.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

RAY = "ray"
_ROOT = Path(__file__).resolve().parents[2]
_RAY_FIXTURE = "ray_cluster"


@cache
def group_of(file: str) -> str:
    """Return the group of a test file, which is named relative to the repository: `ray`, or the file itself."""
    path = _ROOT / file
    return RAY if path.is_file() and _RAY_FIXTURE in path.read_text("utf-8") else file


class GroupScheduling(LoadScopeScheduling):
    """Sends all tests of a group to one process, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid.partition("::")[0])


def make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling | None:
    """Return the scheduler of the groups for `--dist loadscope`; None for any other distribution."""
    return GroupScheduling(config, log) if config.getvalue("dist") == "loadscope" else None


def ray_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests with the group of Ray in front: it takes longest."""
    return sorted(items, key=lambda item: group_of(item.nodeid.partition("::")[0]) != RAY)
