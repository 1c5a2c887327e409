"""Process that holds one Ray node of a test: it starts the node, and kills all of it when its standard input ends.

Each node has a process of its own. Ray's processes die with the thread that started them, and Ray waits long for a head that is
dead: whoever started this process can end it at any time (ray_nodes.py).

`python -m tests.support.ray_node_host FOLDER CPUS GPUS [ADDRESS]` prints the cluster's address as JSON when the node runs.
Without ADDRESS the node is the head of a new cluster.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

import psutil
from ray._private.node import Node
from ray._private.parameter import RayParams

_OBJECT_STORE_BYTES = 80 * 2**20
_REAPING_SECONDS = 10.0


def main(folder: str, cpus: str, gpus: str, address: str = "") -> None:
    """Hold a node until standard input ends."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    node = _start(folder, address, cpus=int(cpus), gpus=int(gpus))
    print(json.dumps({"address": node.gcs_address}), flush=True)
    threading.Event().wait()  # the node would die with this thread


def _start(folder: str, address: str, *, cpus: int, gpus: int) -> Node:
    given: dict[str, Any] = {"gcs_address": address, "node_manager_port": 0} if address else {}
    params = RayParams(
        node_ip_address="127.0.0.1",
        num_cpus=cpus,
        num_gpus=gpus,
        object_store_memory=_OBJECT_STORE_BYTES,
        min_worker_port=0,
        max_worker_port=0,
        include_dashboard=False,
        include_log_monitor=False,
        temp_dir=folder,
        **given,
    )
    params.dashboard_agent_listen_port = 0
    return Node(params, head=not address, shutdown_at_exit=False, spawn_reaper=False)


def _end_with_input() -> None:
    """SIGKILL everything of the node at once when standard input ends, workers too; nothing gets to say goodbye."""
    sys.stdin.read()
    this = psutil.Process()
    started = this.children()
    for process in this.children(recursive=True):
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(started, timeout=_REAPING_SECONDS)  # a raylet that stays a zombie keeps its workers from ending
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
