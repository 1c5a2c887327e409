"""Ray connection of a bulk job: a local Ray of its own (loopback, no dashboard, no output), or a cluster that it joins.

A local Ray is separate: another Ray on the machine, such as that of `lodestone serve`, is neither used nor disturbed, and
`RAY_ADDRESS` is ignored. A Ray that this process is connected to already is used and left running.
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

from lodestone.errors import ConfigurationError, ServiceUnavailableError
from lodestone.processes import sweep_folders
from lodestone_jobs.head import HeadWatch, Place, heard, patience

_T = TypeVar("_T")

_PREFIX: Final = "lodestone-jobs-"
_OBJECT_STORE_BYTES: Final = 80 * 2**20  # tasks and receipts pass through it; pictures and vectors never do
_CONNECT_SECONDS: Final = 10.0
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
# Ray reads these when it is imported, and the processes that it starts inherit them. The user's own values take precedence.
_ENVIRONMENT: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_AUTO_CONNECT": "0",  # otherwise a thread that still calls Ray after its shutdown starts another one
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # silences a warning about a default that will change
}
# Ray rewrites 127.0.0.1 to the address of a network card unless this is off (as it is outside Linux). With any other
# address, of loopback too, its servers listen on every network card.
_KEEP_LOOPBACK: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


class RayHost(ABC):
    """Holds the Ray connection of one job, from `start` to `stop`."""

    def __init__(self) -> None:
        self._started = False
        self._watch: HeadWatch | None = None
        self.folder = Path()  # the job's folder for files of Ray and of its workers; removed at the end

    def start(self) -> None:
        """Connect to Ray, unless this process is connected already, and start watching it. Takes one to seven seconds."""
        for name, value in self._environment().items():
            os.environ.setdefault(name, value)
        import ray

        sweep_folders(_PREFIX)
        # The path is short and outside the home, because Unix sockets lie below it, whose paths have at most 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        if not ray.is_initialized():
            with _sigterm_kept():
                self._connect()
            self._started = True
        self._watch = HeadWatch(self._name(), self._places(), seconds=patience(), let_go=self._disconnect)
        self._watch.start()

    def check(self) -> None:
        """Return if Ray is there, as far as the watch has seen.

        Raises:
            ClusterLostError: Ray is gone. This process has disconnected from it, or soon will.
        """
        if self._watch is not None:
            self._watch.check()

    def heard(self, source: Iterator[_T]) -> Iterator[_T]:
        """Yield what `source` yields, where `source` calls Ray.

        Raises:
            ClusterLostError: Ray is gone, whatever other error that caused.
        """
        return heard(source, self.check, self._check_now)

    def answered(self, call: Callable[[], _T]) -> _T:
        """Return what `call` returns, where `call` calls Ray.

        Raises:
            ClusterLostError: Ray is gone, whatever other error that caused.
        """
        return next(self.heard(call() for _ in range(1)))

    def _check_now(self) -> None:
        if self._watch is not None:
            self._watch.check_now()

    @property
    def log(self) -> Path:
        """Return the file for output of Ray that a person need not read; it is deleted at the end."""
        return self.folder / "stderr.log"

    def stop(self) -> None:
        """Disconnect from what `start` connected to, and remove the job's files. Idempotent."""
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        self._disconnect()
        if self.folder != Path():
            shutil.rmtree(self.folder, ignore_errors=True)  # an ending process may still hold a file; the next job sweeps it
            self.folder = Path()

    def _disconnect(self) -> None:
        if self._started:
            import ray

            ray.shutdown()
            self._started = False

    def _places(self) -> dict[str, Place]:
        """Return the addresses that must answer while the job runs, by a name for messages."""
        import ray

        context = ray.get_runtime_context()
        own_node = next(node for node in ray.nodes() if node["NodeID"] == context.get_node_id())  # type: ignore[no-untyped-call]
        return {
            "its head": _place(context.gcs_address),
            "this machine's node": (own_node["NodeManagerAddress"], own_node["NodeManagerPort"]),
        }

    @abstractmethod
    def _name(self) -> str: ...

    @abstractmethod
    def _environment(self) -> dict[str, str]: ...

    @abstractmethod
    def _connect(self) -> None: ...


class LocalRay(RayHost):
    """Runs a Ray cluster on this machine while one job runs.

    Args:
        workers: Number of processes that work at once.
    """

    def __init__(self, *, workers: int) -> None:
        super().__init__()
        self._workers = workers

    def _name(self) -> str:
        return "the Ray of this run"

    def _places(self) -> dict[str, Place]:
        # A foreign Ray may be a client connection, which has no known addresses.
        return super()._places() if self._started else {}

    def _environment(self) -> dict[str, str]:
        return _ENVIRONMENT | _KEEP_LOOPBACK

    def _connect(self) -> None:
        import ray

        ray.init(
            address="local",
            num_cpus=max(self._workers, 1),  # only counted: an actor asks for half of one
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=_OBJECT_STORE_BYTES,
            _temp_dir=str(self.folder / "ray"),  # Ray makes its folder readable to everybody, so it lies inside a private one
            _node_ip_address="127.0.0.1",
        )


class JoinedRay(RayHost):
    """Joins a running cluster, whose nodes must have Lodestone installed.

    Args:
        address: `HOST:PORT` of its head (this machine is one of its nodes), or `auto`.

    Raises:
        ConfigurationError: the address is for Ray's client (`ray://`), through which Ray Data does not run.
    """

    def __init__(self, address: str) -> None:
        super().__init__()
        if address.startswith("ray://"):
            host = address.removeprefix("ray://").rpartition(":")[0]
            raise ConfigurationError(
                f"a run cannot be driven from outside its cluster ({address})",
                hint=f"submit it as a job: `ray job submit --address http://{host}:8265 -- lodestone … --address auto`",
            )
        self.address = address

    def _name(self) -> str:
        return f"the Ray cluster at {self.address!r}"

    def _environment(self) -> dict[str, str]:
        return _ENVIRONMENT | (_KEEP_LOOPBACK if self._endpoint()[0] in _LOOPBACK else {})

    def _connect(self) -> None:
        """Connect to the cluster.

        Raises:
            ServiceUnavailableError: nothing answers at the address, or it refuses this client.
        """
        import ray

        place = self._endpoint()
        try:
            if place[0]:  # checked first, because Ray itself would try for a minute
                socket.create_connection(place, timeout=_CONNECT_SECONDS).close()
            ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            lines = str(error).strip().splitlines()
            # A server sends its whole traceback, of which the first and the last line matter.
            why = " ".join(dict.fromkeys((lines[0], lines[-1]))) if lines else type(error).__name__
            raise ServiceUnavailableError(
                f"the Ray cluster at {self.address!r} cannot be joined: {why}",
                hint="check the address (HOST:PORT only from one of its nodes; from elsewhere submit a job) and, "
                "where it asks for a token, RAY_AUTH_MODE=token with RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH",
                address=self.address,
            ) from error

    def _endpoint(self) -> Place:
        """Return host and port of the address; ("", 0) for `auto`."""
        return _place(self.address) if ":" in self.address else ("", 0)


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Restore this process's SIGTERM handler, which `ray.init` replaces by one that exits with 15."""
    previous_handler = signal.getsignal(signal.SIGTERM)
    # Only the main thread can set handlers.
    if threading.current_thread() is not threading.main_thread() or previous_handler is None:
        yield
        return
    ended_by_ray = False
    try:
        yield
    except SystemExit as ended:
        ended_by_ray = ended.code == signal.SIGTERM
        raise
    finally:
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:  # otherwise this process has set its own handler meanwhile
            signal.signal(signal.SIGTERM, previous_handler)
        if ended_by_ray:  # the signal came while Ray's handler was set, so it is raised again for the restored one
            signal.raise_signal(signal.SIGTERM)


def _place(address: str) -> Place:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
