"""How does a bulk job get its Ray? One of its own on this machine, loopback, no dashboard, quiet; or a cluster that it joins.

A Ray of its own: another on the machine, `lodestone serve`'s for one, is neither used nor disturbed, and `RAY_ADDRESS` is
ignored. A Ray that this process is connected to already is used and left as it is.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from lodestone.errors import ServiceUnavailableError
from lodestone.processes import sweep_folders
from lodestone_jobs.head import HeadWatch, Place, heard, patience

_T = TypeVar("_T")

_PREFIX: Final = "lodestone-jobs-"
_OBJECT_STORE_BYTES: Final = 80 * 2**20  # tasks and receipts pass through it; pictures and vectors never do
_CONNECT_SECONDS: Final = 10.0
_JOININGS: Final = 3  # tries: a busy head may not have a client's server up in time
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
# Read by Ray when it is imported, and handed down to the processes it starts. What the user has set wins.
_ENVIRONMENT: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_AUTO_CONNECT": "0",  # else a thread that still asks when Ray was shut down starts another
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # silences a warning about a default that changes
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}
# Ray rewrites 127.0.0.1 to the address of a network card unless this is off (as it is outside Linux). With any other
# address, of loopback too, its servers listen on every network card.
_KEEP_LOOPBACK: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


class RayHost(ABC):
    """The Ray of one job, from `start` to `stop`."""

    def __init__(self) -> None:
        self._started = False
        self._watch: HeadWatch | None = None
        self.folder = Path()  # of this job, for Ray's files and its workers'; removed at the end

    def start(self) -> None:
        """Connect, unless this process is connected already, and watch what it is connected to. Takes one to seven seconds."""
        for name, value in self._environment().items():
            os.environ.setdefault(name, value)
        import ray

        sweep_folders(_PREFIX)
        # Short and outside the home: Unix sockets lie below it, and their paths end at 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        if not ray.is_initialized():
            with _sigterm_kept():
                self._connect()
            self._started = True
        self._watch = HeadWatch(self._name(), self._places(), seconds=patience(), let_go=self._disconnect)
        self._watch.start()

    def check(self) -> None:
        """Return while Ray is there, as far as the watch has seen.

        Raises:
            ClusterLostError: it has gone. Nothing of Ray is left in this process then, or soon.
        """
        if self._watch is not None:
            self._watch.check()

    def heard(self, source: Iterator[_T]) -> Iterator[_T]:
        """What `source` yields, which asks Ray for it.

        Raises:
            ClusterLostError: Ray has gone, whatever else came of that.
        """
        return heard(source, self.check, self._check_now)

    def answered(self, call: Callable[[], _T]) -> _T:
        """What `call` returns, which asks Ray for it. Raises as `heard`."""
        return next(self.heard(call() for _ in range(1)))

    def _check_now(self) -> None:
        if self._watch is not None:
            self._watch.check_now()

    @property
    def log(self) -> Path:
        """Where to put what Ray says that a person need not read; gone when it stops."""
        return self.folder / "stderr.log"

    def stop(self) -> None:
        """Let go of what `start` connected to, and remove the job's files. Idempotent."""
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        self._disconnect()
        if self.folder != Path():
            shutil.rmtree(self.folder, ignore_errors=True)  # a dying process may still hold a file; swept next time
            self.folder = Path()

    def _disconnect(self) -> None:
        if self._started:
            import ray

            ray.shutdown()
            self._started = False

    def _places(self) -> dict[str, Place]:
        """What must answer while the job runs."""
        import ray

        me = ray.get_runtime_context()
        mine = next(node for node in ray.nodes() if node["NodeID"] == me.get_node_id())  # type: ignore[no-untyped-call]
        return {
            "its head": _place(me.gcs_address),
            "this machine's node": (mine["NodeManagerAddress"], mine["NodeManagerPort"]),
        }

    @abstractmethod
    def _name(self) -> str: ...

    @abstractmethod
    def _environment(self) -> dict[str, str]: ...

    @abstractmethod
    def _connect(self) -> None: ...


class LocalRay(RayHost):
    """A Ray cluster on this machine for as long as one job runs.

    Args:
        workers: Processes that will work at once.
    """

    def __init__(self, *, workers: int) -> None:
        super().__init__()
        self._workers = workers

    def _name(self) -> str:
        return "the Ray of this run"

    def _places(self) -> dict[str, Place]:
        return super()._places() if self._started else {}  # somebody else's: it may be a client's, of which nothing is known

    def _environment(self) -> dict[str, str]:
        return _ENVIRONMENT | _KEEP_LOOPBACK

    def _connect(self) -> None:
        import ray

        ray.init(
            address="local",
            num_cpus=self._workers + 2,  # room for Ray Data's own tasks: actors that hold every CPU would block them
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=_OBJECT_STORE_BYTES,
            _temp_dir=str(self.folder / "ray"),  # Ray opens its own folder to everybody, so it lies inside one that is closed
            _node_ip_address="127.0.0.1",
        )


class JoinedRay(RayHost):
    """A cluster that others run. Its nodes have Lodestone installed.

    Args:
        address: `HOST:PORT` of its head (this machine is one of its nodes), `ray://HOST:PORT` (from anywhere), or `auto`.
    """

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address

    @property
    def outside(self) -> bool:
        """Whether this process is none of the cluster's, but a client (`ray://`)."""
        return self.address.startswith("ray://")

    def _name(self) -> str:
        return f"the Ray cluster at {self.address!r}"

    def _places(self) -> dict[str, Place]:
        return {"its head": self._endpoint()} if self.outside else super()._places()

    def _environment(self) -> dict[str, str]:
        return _ENVIRONMENT | (_KEEP_LOOPBACK if self._endpoint()[0] in _LOOPBACK else {})

    def _connect(self) -> None:
        """Raises `ServiceUnavailableError` when nobody answers there, or not to us."""
        import ray

        place = self._endpoint()
        try:
            if place[0]:  # Ray itself would try for a minute
                socket.create_connection(place, timeout=_CONNECT_SECONDS).close()
            joining = Retrying(
                retry=retry_if_exception_type(ConnectionAbortedError),  # the server of this client did not come up in time
                stop=stop_after_attempt(_JOININGS),
                wait=wait_fixed(1),
                reraise=True,
            )
            joining(ray.init, address=self.address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            said = str(error).strip().splitlines()
            why = (
                " ".join(dict.fromkeys((said[0], said[-1]))) if said else type(error).__name__
            )  # (a server sends its traceback)
            raise ServiceUnavailableError(
                f"the Ray cluster at {self.address!r} cannot be joined: {why}",
                hint="check the address (HOST:PORT only from a machine that is one of its nodes, else ray://HOST:10001) and, "
                "where it asks for a token, RAY_AUTH_MODE=token with RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH",
                address=self.address,
            ) from error

    def _endpoint(self) -> Place:
        """Of the address; ("", 0) for `auto`."""
        return _place(self.address.removeprefix("ray://")) if ":" in self.address else ("", 0)


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Leave it to this process how it ends when it is asked to: `ray.init` sets a handler of its own, which exits with 15."""
    before = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread() or before is None:  # nobody sets handlers elsewhere
        yield
        return
    rays = False
    try:
        yield
    except SystemExit as ended:
        rays = ended.code == signal.SIGTERM
        raise
    finally:
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:  # else it was this process's own turn, meanwhile
            signal.signal(signal.SIGTERM, before)
        if rays:  # asked while Ray's was in force: once more, for the one that it took the place of
            signal.raise_signal(signal.SIGTERM)


def _place(address: str) -> Place:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
