"""The cluster of Ray nodes for tests never waits for a node that does not start."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.support import ray_nodes
from tests.support.ray_nodes import NodeNotStartedError, RayNodes

_STARTS = 'import sys; print(\'{"address": "127.0.0.1:1"}\', flush=True); sys.stdin.read()'
_HANGS = "import time; time.sleep(600)"
_DIES = "raise SystemExit(1)"


class FakeNodes(RayNodes):
    """Nodes whose hosts start no Ray, but run a script: the last one of `scripts` again and again."""

    scripts: list[str]

    def _host(self, *arguments: str) -> subprocess.Popen[str]:
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        return subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNodes:
    monkeypatch.setattr(ray_nodes, "_ENDING_SECONDS", 0.2)
    (tmp_path / "host.log").write_text("why\n", encoding="utf-8")
    return FakeNodes({}, tmp_path)


def test_a_node_that_waits_for_a_dead_head_is_given_up_when_the_head_is_killed(nodes: FakeNodes) -> None:
    nodes.scripts = [_STARTS, _HANGS, _STARTS]
    nodes.add()
    refused: list[NodeNotStartedError] = []

    def join() -> None:
        try:
            nodes.add()
        except NodeNotStartedError as error:
            refused.append(error)

    joining = threading.Thread(target=join)
    joining.start()
    while len(nodes._hosts) < 2:
        time.sleep(0.01)
    nodes.kill(0)
    joining.join(180)
    assert not joining.is_alive()
    assert "why" in str(refused)
    with pytest.raises(NodeNotStartedError, match="whose head is dead"):
        nodes.add()
    nodes.restart(nodes=2)
    assert nodes.alive == {0, 1}
    nodes.kill_all()
    assert not (nodes.alive or nodes._hosts)


@pytest.mark.parametrize("script", [_HANGS, _DIES])
def test_a_node_that_does_not_start_in_time_is_ended(nodes: FakeNodes, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    nodes.scripts = [_STARTS, script]
    nodes.add()
    monkeypatch.setattr(ray_nodes, "_READY_SECONDS", 0.2)
    with pytest.raises(NodeNotStartedError, match="node 1 did not start"):
        nodes.add()
    assert nodes.alive == {0}
    nodes.kill_all()
