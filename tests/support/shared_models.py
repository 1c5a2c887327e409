"""How do tests of one process share what they load? A model's session and the shipped bridge stay in memory between homes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pytest

_SESSIONS = 8  # of these, the largest takes 90 MB


@pytest.fixture(scope="session", autouse=True)
def shared_models() -> Iterator[None]:
    """Sessions are safe to run from several threads, and weights are immutable: who shares them cannot tell."""
    from lodestone.models import session
    from lodestone.spaces.bridge_weights import BridgeWeights  # imports numpy, as the next does: not before its threads are set

    load = session.open_session

    @lru_cache(_SESSIONS)
    def loaded(path: Path, _changed: tuple[int, int, int], threads: int) -> Any:
        return load(path, threads=threads)

    def open_session(path: Path, *, threads: int = 0) -> Any:
        if not path.exists():
            return load(path, threads=threads)
        found = path.stat()
        return loaded(path, (found.st_ino, found.st_mtime_ns, found.st_size), threads)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "open_session", open_session)
        patch.setattr(BridgeWeights, "shipped", cache(BridgeWeights.shipped))
        yield
