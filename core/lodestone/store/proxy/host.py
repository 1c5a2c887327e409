"""Host of the embedded store for other processes of this machine: answers calls of a `StoreProxy`, one thread a pipe."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any, Final

from lodestone.errors import LodestoneError, StoreError
from lodestone.store.base import PointBatch, VectorStore
from lodestone.store.edge.store import EdgeStore

METHODS: Final = frozenset(VectorStore.__abstractmethods__) - {"close"} | {"erase", "examine_files", "settle", "shared_matrix"}
"""What a pipe may call: everything that the owner's store does, but for closing it."""

_log = logging.getLogger(__name__)


class StoreHost:
    """Answers calls over pipes until their other ends are closed.

    Whoever holds the other end may call everything in METHODS, and what is sent is unpickled: pipes go to this program's own
    processes alone.

    Args:
        store: What answers.
        pipes: The pipes; each has a thread of its own, which closes it.
    """

    def __init__(self, store: EdgeStore, pipes: Sequence[Connection]) -> None:
        self._store = store
        self._threads = [
            threading.Thread(target=self._serve, args=(pipe,), name=f"lodestone-store-{number}", daemon=True)
            for number, pipe in enumerate(pipes)
        ]

    def start(self) -> None:
        """Begin to answer what comes over the pipes."""
        for thread in self._threads:
            thread.start()

    def _serve(self, pipe: Connection) -> None:
        try:
            with pipe:
                while True:
                    method, arguments, options = pipe.recv()
                    if method == "scroll":
                        self._scroll(pipe, arguments, options)
                    else:
                        _send(pipe, *self._outcome(method, arguments, options))
        except (EOFError, OSError):
            return  # the other process has ended

    def _scroll(self, pipe: Connection, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Send every page of a collection, and None after the last one."""
        pages: Iterator[PointBatch] | None = None
        while True:
            try:
                pages = self._store.scroll(*arguments, **options) if pages is None else pages
                page = next(pages, None)
            except Exception as error:  # noqa: BLE001 - whatever it is, the caller raises it
                _send(pipe, False, _passed_on(error))
                return
            if not _send(pipe, True, page) or page is None:
                return

    def _outcome(self, method: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[bool, Any]:
        """Return whether the call went well, and its result or its error."""
        if method not in METHODS:
            return False, StoreError(f"a store has no method {method!r} for other processes")
        try:
            return True, getattr(self._store, method)(*arguments, **options)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller raises it
            return False, _passed_on(error)


def _send(pipe: Connection, fine: bool, value: Any) -> bool:  # noqa: ANN401 - what a method returns
    """Send what came of a call; what cannot be pickled is told by its text, and False is returned.

    Raises:
        OSError: the other process is gone.
    """
    try:
        pipe.send((fine, value))
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - of pickle: anything
        pipe.send((False, _passed_on(error)))
        return False
    return True


def _passed_on(error: Exception) -> LodestoneError:
    """Return what the other process raises: errors of ours as they are, others by their text."""
    if isinstance(error, LodestoneError):
        return error
    _log.error("the store failed for another process", exc_info=error)
    return StoreError(f"the store failed: {type(error).__name__}: {error}")
