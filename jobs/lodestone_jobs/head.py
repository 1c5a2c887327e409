"""Watch on the Ray cluster that a driver works with, so that the driver ends with an error when the cluster is lost.

When a head stays away, Ray itself ends the driver's process after `RAY_gcs_rpc_server_reconnect_timeout_s`, with no exception
and no record. The watch gives up a little earlier and disconnects from Ray, which keeps the process: a run that embeds then
fails with `ClusterLostError`, and one that is already loading continues to its end. A head that returns earlier (Ray's fault
tolerance of the GCS) ends nothing.
"""

from __future__ import annotations

import errno
import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from lodestone.errors import ClusterLostError, RunFailedError

Place = tuple[str, int]  # host, port

_RAY_TIMEOUT: Final = "RAY_gcs_rpc_server_reconnect_timeout_s"
_RAY_DEFAULT_SECONDS: Final = 60.0
_SHARE: Final = 0.75  # share of Ray's timeout; Ray's starts with the broken connection, ours with the next check
_SHUTDOWN_SECONDS: Final = 5.0  # time that `ray.shutdown` takes when nothing answers
_STOP_SECONDS: Final = 2 * _SHUTDOWN_SECONDS  # longest wait for the shutdown before the error is reported
_LEAST_SECONDS: Final = 1.0
_ASK_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 2.0
_WARN_AFTER_SECONDS: Final = 3.0
_LOOK_SECONDS: Final = 0.5
# Errors of this process or machine: no file descriptors, ports or memory left, or no name server that answers.
_LOCAL_ERRORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM})
_LOCAL_RESOLVER_ERRORS: Final = frozenset({socket.EAI_AGAIN, socket.EAI_MEMORY, socket.EAI_SYSTEM})
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


def patience(environment: Mapping[str, str] = os.environ) -> float:
    """Return how many seconds a head may stay away: fewer than Ray allows, so that there is time to disconnect."""
    try:
        ray_timeout = float(environment.get(_RAY_TIMEOUT, ""))
    except ValueError:
        ray_timeout = _RAY_DEFAULT_SECONDS
    return max(_SHARE * ray_timeout - _SHUTDOWN_SECONDS, _LEAST_SECONDS)


class HeadWatch:
    """Checks servers of a Ray cluster, with a TCP connection each second, until it is stopped.

    Args:
        name: The cluster's name, for messages.
        places: Addresses that must answer, by a name for messages.
        seconds: Time that an address may fail to answer.
        let_go: Called once, in the watch's thread, when an address has failed for longer.
    """

    def __init__(self, name: str, places: Mapping[str, Place], *, seconds: float, let_go: Callable[[], object]) -> None:
        self._name = name
        self._places = dict(places)
        self._seconds = seconds
        self._let_go = let_go
        self._since: dict[str, float] = {}  # name of an address -> time of its first failure
        self._warned: set[str] = set()
        self._lost: ClusterLostError | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ray-head-watch", daemon=True)

    def start(self) -> None:
        """Start checking in the background."""
        self._thread.start()

    def stop(self) -> None:
        """Stop checking, and wait until a lost cluster is disconnected, or until that takes too long."""
        self._over.set()
        self._thread.join(_STOP_SECONDS)

    def check(self) -> None:
        """Return if the cluster is there, as far as is known.

        Raises:
            ClusterLostError: an address has failed to answer for too long.
        """
        if self._lost is not None:
            raise self._lost

    def check_now(self) -> None:
        """Check at once, after something else has failed: an address that does not answer is the cause.

        Raises:
            ClusterLostError: an address does not answer, or has failed to for too long.
        """
        self.check()
        for who, place in self._places.items():
            if answers(place) is False:
                raise self._error(who)

    def _watch(self) -> None:
        while not self._over.wait(_ASK_SECONDS):
            for who, place in self._places.items():
                answer = answers(place)
                if answer:
                    self._welcome(who, place)
                elif answer is False and self._missed(who, place) >= self._seconds:
                    self._lost = self._error(who)
                    self._let_go()
                    return

    def _welcome(self, who: str, place: Place) -> None:
        self._since.pop(who, None)
        if who in self._warned:
            self._warned.remove(who)
            _log.warning("%s (%s:%d) answers again", who, *place)

    def _missed(self, who: str, place: Place) -> float:
        away = time.monotonic() - self._since.setdefault(who, time.monotonic())
        if away >= min(_WARN_AFTER_SECONDS, self._seconds / 2) and who not in self._warned:
            self._warned.add(who)
            _log.warning("%s (%s:%d) does not answer; waiting %.0f s for it", who, *place, self._seconds)
        return away

    def _error(self, who: str) -> ClusterLostError:
        host, port = self._places[who]
        away = time.monotonic() - self._since.get(who, time.monotonic())
        how = f"has not answered for {away:.0f} s" if away >= _LEAST_SECONDS else "does not answer"
        return ClusterLostError(
            f"{self._name} is lost: {who} ({host}:{port}) {how}",
            hint="what is finished is kept: start the cluster again, then `lodestone index --resume`",
            address=f"{host}:{port}",
        )


def answers(place: Place) -> bool | None:
    """Return whether the address accepts a connection within two seconds; None when a local error prevents the check."""
    try:
        socket.create_connection(place, timeout=_ANSWER_SECONDS).close()
    except OSError as error:
        local_errors = _LOCAL_RESOLVER_ERRORS if isinstance(error, socket.gaierror) else _LOCAL_ERRORS
        if error.errno not in local_errors:
            return False
        _log.debug("cannot ask %s:%d: %s", *place, error)
        return None
    return True


def heard(source: Iterator[_T], check: Callable[[], None], check_now: Callable[[], None]) -> Iterator[_T]:
    """Yield what `source` yields; it runs in a thread, because it may block without end, which this function may not.

    Args:
        source: Yields results or raises; it is not advanced any more once this generator is closed.
        check: Called while there is no result; its exception ends the wait.
        check_now: Called when `source` has failed; its exception is raised as the cause.
    """
    results: queue.SimpleQueue[tuple[_T] | BaseException | None] = queue.SimpleQueue()
    closed = threading.Event()

    def listen() -> None:
        try:
            for result in source:
                results.put((result,))
                if closed.is_set():
                    break
            results.put(None)
        except BaseException as error:  # noqa: BLE001 - raised again where it can be handled
            results.put(error)

    threading.Thread(target=listen, name="receipts", daemon=True).start()
    try:
        while True:
            try:
                answer = results.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                check()
                continue
            if answer is None:
                return
            if isinstance(answer, BaseException):
                check_now()
                raise _for_this_thread(answer)
            yield answer[0]
    finally:
        closed.set()


def _for_this_thread(error: BaseException) -> BaseException:
    """Turn a `SystemExit` into an error.

    Ray raises it in waiting threads when it is shut down, and it would end them silently.
    """
    if isinstance(error, Exception):
        return error
    failed = RunFailedError(
        f"Ray was shut down while it worked ({type(error).__name__})",
        hint="what is finished is kept: `lodestone index --resume`",
    )
    failed.__cause__ = error
    return failed
