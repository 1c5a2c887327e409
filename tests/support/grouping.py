"""Groups of tests for processes side by side: files that share a server run in one process, so that it starts once.

Other files are groups of their own. pytest-xdist reads the groups with `--dist loadgroup`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

_SERVERS = {"ray_cluster": "ray", "qdrant_server": "qdrant", "postgres_server": "postgres"}
_PARAMETERS = {"server": "qdrant", "namespace": "qdrant", "postgres": "postgres"}
_BY_PARAMETER = {"catalog_url", "new_url", "store"}
"""Fixtures whose parameter names the server that they ask for when they run."""


def group(items: Iterable[pytest.Item]) -> None:
    """Mark every test with its group, which is a server that its file needs, or the file."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    for path, tests in files.items():
        servers = sorted(server for test in tests for server in _servers_of(test))
        name = servers[-1] if servers else "/".join(path.relative_to(tests[0].config.rootpath).with_suffix("").parts[1:])
        for test in tests:
            test.add_marker(pytest.mark.xdist_group(name))


def servers_first(item: pytest.Item) -> bool:
    """Return the key of an order with the groups of servers in front: they take longest."""
    mark = item.get_closest_marker("xdist_group")
    return mark is None or mark.args[0] not in _SERVERS.values()


def _servers_of(test: pytest.Item) -> set[str]:
    names: Iterable[str] = getattr(test, "fixturenames", ())
    callspec = getattr(test, "callspec", None)
    values = {value for value in callspec.params.values() if isinstance(value, str)} if callspec else set()
    asked = {_PARAMETERS[value] for value in values & _PARAMETERS.keys()} if _BY_PARAMETER & set(names) else set()
    return {_SERVERS[name] for name in names if name in _SERVERS} | asked
