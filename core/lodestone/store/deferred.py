"""Stand-in for a store (or catalog) that opens it at its first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")


def deferred(open_: Callable[[], T]) -> T:
    """Return a stand-in that calls `open_` for the store (or catalog) at every use; nothing is locked or created before."""
    return cast("T", _Deferred(open_))


class _Deferred:
    def __init__(self, open_: Callable[[], object]) -> None:
        self._open = open_

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        return getattr(self._open(), name)
