"""How can a store be handed on without being opened? As one that is opened by its first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from lodestone.store.base import VectorStore


def deferred(open_: Callable[[], VectorStore]) -> VectorStore:
    """A stand-in that asks `open_` for the store at every use; so nothing is locked until something is searched."""
    return cast("VectorStore", _Deferred(open_))


class _Deferred:
    def __init__(self, open_: Callable[[], VectorStore]) -> None:
        self._open = open_

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        return getattr(self._open(), name)
