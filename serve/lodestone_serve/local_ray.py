"""How does the service get a Ray of its own? One machine, loopback, no dashboard, quiet, its files gone afterwards.

Nothing here touches another Ray on the machine, and `RAY_ADDRESS` is ignored: the embedded store has one owner on one machine.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "lodestone-ray-"
_OBJECT_STORE_BYTES = 100 * 2**20  # requests and answers pass through it in bytes; pictures never do
# Read by Ray when it is imported, and handed down to the processes it starts. What the user has set wins.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
    # Part of the above, but it opens a second port on the replica, around the proxy.
    "RAY_SERVE_ENABLE_DIRECT_INGRESS": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # silences a warning about a default that changes
}


@contextmanager
def local_ray() -> Iterator[Path]:
    """Start a Ray cluster on this machine and stop it again. Yields its temporary folder (mode 0700), removed at the end."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    _sweep()
    # Short and outside the home: Unix sockets lie below it, and their paths end at 107 characters.
    temporary = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    import ray

    try:
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=_OBJECT_STORE_BYTES,
            _temp_dir=str(temporary / "ray"),  # Ray opens its own folder to everybody, so it lies inside one that is closed
            # Ray rewrites 127.0.0.1 to the address of a network card; any other loopback address it keeps (Linux has them all).
            _node_ip_address="127.0.0.2" if sys.platform == "linux" else None,
        )
        yield temporary
    finally:
        ray.shutdown()
        shutil.rmtree(temporary, ignore_errors=True)  # a dying process may still hold a file; swept next time


def _sweep() -> None:
    """Remove what services that were killed have left behind."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        match = re.match(rf"{_PREFIX}(\d+)-", folder.name)
        if match and not _runs(int(match[1])):
            shutil.rmtree(folder, ignore_errors=True)  # another user's stays


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
