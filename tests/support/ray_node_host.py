"""Which process are a test's Ray nodes the children of? This one: it starts and kills them as it is told on standard input.

A process of its own, because Ray reads its settings when it is imported, and its nodes die with the thread that started them.
`add CPUS GPUS` prints a node's number, address and processes as JSON; `kill NUMBER` sends SIGKILL to
all of them; after `kill all` the next one is the head of a new cluster.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

import psutil
from ray._private.node import Node
from ray._private.parameter import RayParams

_OBJECT_STORE_BYTES = 80 * 2**20


def main(folder: str) -> None:
    """Do as told until standard input ends."""
    nodes: list[Node] = []
    for line in sys.stdin:
        command, value, *more = line.split()
        if command == "add":
            nodes.append(_start(folder, nodes[0] if nodes else None, cpus=int(value), gpus=int(more[0])))
            answer: Any = {"number": len(nodes) - 1, "address": nodes[0].gcs_address, "pids": _pids(nodes[-1])}
        elif value == "all":
            answer = {"killed": sum(_kill(node) for node in nodes)}
            nodes.clear()
        else:
            answer = {"killed": _kill(nodes[int(value)])}
        print(json.dumps(answer), flush=True)
    for node in reversed(nodes):
        _kill(node)


def _start(folder: str, head: Node | None, *, cpus: int, gpus: int) -> Node:
    given: dict[str, Any] = {} if head is None else {"gcs_address": head.gcs_address, "node_manager_port": 0}
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
    return Node(params, head=head is None, shutdown_at_exit=False, spawn_reaper=False)


def _pids(node: Node) -> list[int]:
    return [process.process.pid for processes in node.all_processes.values() for process in processes]


def _kill(node: Node) -> int:
    """SIGKILL everything of the node at once, workers too; nothing gets to say goodbye."""
    victims: list[psutil.Process] = []
    for pid in _pids(node):
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            victims += [process, *process.children(recursive=True)]
    for process in victims:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    for processes in node.all_processes.values():
        for each in processes:
            each.process.wait()  # a raylet that stays a zombie keeps its workers from ending
    return len(victims)


if __name__ == "__main__":
    main(sys.argv[1])
