"""The service's own Ray cluster: one machine, loopback, no dashboard, quiet; its files are removed afterwards.

Nothing here touches another Ray on the machine, and `RAY_ADDRESS` is ignored: the embedded store has one owner on one machine.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lodestone.processes import sweep_folders
from lodestone_serve.inference.blas import BLAS_ENVIRONMENT
from lodestone_serve.traffic.proxy_middleware import PROXY_ENVIRONMENT

_PREFIX = "lodestone-ray-"
_OBJECT_STORE_BYTES = 100 * 2**20  # requests and answers pass through it as bytes; pictures never do
# Read by Ray when it is imported, and inherited by the processes it starts. Values that the user has set win.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
    # Part of the above, but it opens a second port on the replica, around the proxy.
    "RAY_SERVE_ENABLE_DIRECT_INGRESS": "0",
    # The autoscaler would learn of a load only after ten seconds.
    "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "2",
    "RAY_SERVE_HANDLE_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "2",
    # Ray's default is ten seconds, three times, before a crashed proxy is restarted: half a minute without connections.
    "RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S": "2",
    # Ray kills a proxy that is not ready after five seconds, and the start fails, as on a busy machine. The driver waits 60.
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
    **PROXY_ENVIRONMENT,
    **BLAS_ENVIRONMENT,
    # Serve's own metrics, which nobody reads here, are otherwise passed on ten times a second by each of its processes.
    "RAY_SERVE_METRICS_EXPORT_INTERVAL_MS": "2000",
    # Ray rewrites 127.0.0.1 to the address of a network card unless this is off (as it is outside Linux). With any other
    # address, of loopback too, its servers listen on every network card.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # silences a warning about a default that changes
}


@contextmanager
def local_ray(resources: Mapping[str, float] | None = None, *, environment: Mapping[str, str] | None = None) -> Iterator[Path]:
    """Start a Ray cluster on this machine and stop it again. Yields its temporary folder (mode 0700), removed at the end.

    Args:
        resources: Resources that it offers: `CPU` (2 by default), and custom ones. GPUs are detected.
        environment: Variables for Ray's processes alone, besides this process's.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    sweep_folders(_PREFIX)
    # Short and outside the home: it holds Unix sockets, whose paths have at most 107 characters.
    temporary = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    import ray

    offered = {name: amount for name, amount in (resources or {}).items() if name != "GPU"}
    try:
        with _with_environment(environment or {}):
            ray.init(
                address="local",
                num_cpus=int(offered.pop("CPU", 2)),
                resources=offered or None,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                object_store_memory=_OBJECT_STORE_BYTES,
                _temp_dir=str(temporary / "ray"),  # Ray's folder is readable by everybody, so it is inside a private one
                _node_ip_address="127.0.0.1",
            )
        yield temporary
    finally:
        ray.shutdown()
        shutil.rmtree(
            temporary, ignore_errors=True
        )  # a process that is ending may still hold a file; the next start removes it


@contextmanager
def _with_environment(environment: Mapping[str, str]) -> Iterator[None]:
    """Add variables to this process's environment for the block, because Ray's processes inherit it when they start."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
