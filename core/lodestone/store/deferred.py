"""How can a store be handed on without being opened? As one that is opened by its first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")


def deferred(open_: Callable[[], T]) -> T:
    """A stand-in that asks `open_` for the store (or catalog) at every use; so nothing is locked or made until then."""
    return cast("T", _Deferred(open_))


class _Deferred:
    def __init__(self, open_: Callable[[], object]) -> None:
        self._open = open_

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        return getattr(self._open(), name)
