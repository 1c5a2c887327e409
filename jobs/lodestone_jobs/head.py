"""Is the Ray that a driver works with still there? A thread asks, so that the driver ends with a word when it is not.

Ray's own answer to a head that stays away is to end the driver's process: after `RAY_gcs_rpc_server_reconnect_timeout_s`, with
no exception and nothing on record. The watch gives up a little earlier, and lets go of Ray, which saves the process: a run that
embeds then fails with `ClusterLostError`, and one that is loading by then goes on to its end. A head that is back before
(Ray's fault tolerance of the GCS) ends nothing.
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

_RAYS_TIMEOUT: Final = "RAY_gcs_rpc_server_reconnect_timeout_s"
_RAYS_DEFAULT_SECONDS: Final = 60.0
_SHARE: Final = 0.75  # of Ray's time: its clock starts with the broken connection, ours when we ask next
_LETTING_GO_SECONDS: Final = 5.0  # what `ray.shutdown` takes when nobody answers
_LEAVING_SECONDS: Final = 2 * _LETTING_GO_SECONDS  # then the reason is told first, whatever Ray does with the process
_LEAST_SECONDS: Final = 1.0
_ASK_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 2.0
_WORTH_TELLING_SECONDS: Final = 3.0
_LOOK_SECONDS: Final = 0.5
# This process or machine has no file descriptors, ports or memory left, or no name server that answers.
_OUR_TROUBLE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM})
_OUR_RESOLVERS: Final = frozenset({socket.EAI_AGAIN, socket.EAI_MEMORY, socket.EAI_SYSTEM})
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


def patience(environment: Mapping[str, str] = os.environ) -> float:
    """Seconds that a head may stay away: less than Ray's own, so that there is time to let go of it."""
    try:
        rays = float(environment.get(_RAYS_TIMEOUT, ""))
    except ValueError:
        rays = _RAYS_DEFAULT_SECONDS
    return max(_SHARE * rays - _LETTING_GO_SECONDS, _LEAST_SECONDS)


class HeadWatch:
    """Asks servers of a Ray cluster whether they are there, by a TCP connection each second, until it is stopped.

    Args:
        name: The cluster's, for messages.
        places: What must answer, by a name for messages.
        seconds: That one may stay away.
        let_go: Called once, in the watch's thread, when one has stayed away for longer.
    """

    def __init__(self, name: str, places: Mapping[str, Place], *, seconds: float, let_go: Callable[[], object]) -> None:
        self._name = name
        self._places = dict(places)
        self._seconds = seconds
        self._let_go = let_go
        self._since: dict[str, float] = {}  # when it was missed first, by who
        self._told: set[str] = set()
        self._lost: ClusterLostError | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ray-head-watch", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more; returns when what was lost has been let go of, or that takes too long."""
        self._over.set()
        self._thread.join(_LEAVING_SECONDS)

    def check(self) -> None:
        """Return while the cluster is there, as far as is known.

        Raises:
            ClusterLostError: it has stayed away for too long.
        """
        if self._lost is not None:
            raise self._lost

    def check_now(self) -> None:
        """Ask at once, when something else has failed: what does not answer now is the reason for that.

        Raises:
            ClusterLostError: it does not answer, or has stayed away for too long.
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
        if who in self._told:
            self._told.remove(who)
            _log.warning("%s (%s:%d) answers again", who, *place)

    def _missed(self, who: str, place: Place) -> float:
        away = time.monotonic() - self._since.setdefault(who, time.monotonic())
        if away >= min(_WORTH_TELLING_SECONDS, self._seconds / 2) and who not in self._told:
            self._told.add(who)
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
    """Whether somebody takes connections there, within two seconds; None: it could not be asked, for reasons that lie here."""
    try:
        socket.create_connection(place, timeout=_ANSWER_SECONDS).close()
    except OSError as error:
        ours = _OUR_RESOLVERS if isinstance(error, socket.gaierror) else _OUR_TROUBLE
        if error.errno not in ours:
            return False
        _log.debug("cannot ask %s:%d: %s", *place, error)
        return None
    return True


def heard(source: Iterator[_T], check: Callable[[], None], check_now: Callable[[], None]) -> Iterator[_T]:
    """What `source` yields. It runs in a thread: it may be silent for ever, and this may not.

    Args:
        source: Yields what little there is, or fails; not asked for more once nobody listens.
        check: Called while it is silent; what it raises ends the waiting.
        check_now: Called when it has failed: what it raises is the reason.
    """
    told: queue.SimpleQueue[tuple[_T] | BaseException | None] = queue.SimpleQueue()
    deaf = threading.Event()

    def listen() -> None:
        try:
            for one in source:
                told.put((one,))
                if deaf.is_set():
                    break
            told.put(None)
        except BaseException as error:  # noqa: BLE001 - raised again where it can be handled
            told.put(error)

    threading.Thread(target=listen, name="receipts", daemon=True).start()
    try:
        while True:
            try:
                answer = told.get(timeout=_LOOK_SECONDS)
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
        deaf.set()


def _for_this_thread(error: BaseException) -> BaseException:
    """Ray raises `SystemExit` in threads that wait for it when it is shut down: no reason to end in silence."""
    if isinstance(error, Exception):
        return error
    failed = RunFailedError(
        f"Ray was shut down while it worked ({type(error).__name__})",
        hint="what is finished is kept: `lodestone index --resume`",
    )
    failed.__cause__ = error
    return failed
