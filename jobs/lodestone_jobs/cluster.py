"""How does a bulk job get a Ray of its own? One machine, loopback, no dashboard, quiet, its files gone afterwards.

Another Ray on the machine, `lodestone serve`'s for one, is neither used nor disturbed, and `RAY_ADDRESS` is ignored. A Ray
that this process runs already is used and left running.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from lodestone.processes import sweep_folders

_PREFIX: Final = "lodestone-jobs-"
_OBJECT_STORE_BYTES: Final = 80 * 2**20  # tasks and receipts pass through it; pictures and vectors never do
# Read by Ray when it is imported, and handed down to the processes it starts. What the user has set wins.
_ENVIRONMENT: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray rewrites 127.0.0.1 to the address of a network card unless this is off (as it is outside Linux). With any other
    # address, of loopback too, its servers listen on every network card.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # silences a warning about a default that changes
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}


class LocalRay:
    """A Ray cluster on this machine for as long as one job runs.

    Args:
        workers: Processes that will work at once.
    """

    def __init__(self, *, workers: int) -> None:
        self._workers = workers
        self._started = False
        self.folder = Path()  # of this job, for Ray's files and its workers'; removed at the end

    def start(self) -> None:
        """Start it, unless this process is connected to one. Takes two to seven seconds."""
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        import ray

        sweep_folders(_PREFIX)
        # Short and outside the home: Unix sockets lie below it, and their paths end at 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        if ray.is_initialized():
            return
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
        self._started = True

    @property
    def log(self) -> Path:
        """Where to put what Ray says that a person need not read; gone when it stops."""
        return self.folder / "stderr.log"

    def stop(self) -> None:
        """Stop it, if `start` started it, and remove the job's files. Idempotent."""
        if self._started:
            import ray

            ray.shutdown()
            self._started = False
        if self.folder != Path():
            shutil.rmtree(self.folder, ignore_errors=True)  # a dying process may still hold a file; swept next time
            self.folder = Path()
