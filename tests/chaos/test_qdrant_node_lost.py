"""After a node of Qdrant is lost for good, the runbook makes its copies again, and another node may die."""

from __future__ import annotations

import json
import shutil
import urllib.request
from importlib import util
from pathlib import Path
from typing import Any

import pytest
from scripts.manifests.overlays import ROOT
from tests.support.qdrant_cluster import QdrantCluster, run_qdrant_cluster

pytestmark = [pytest.mark.server, pytest.mark.chaos]
POINTS, SHARDS = 300, 6


def _script() -> Any:
    spec = util.spec_from_file_location("replicate_shards", ROOT / "deploy" / "replicate_shards.py")
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _put(url: str, body: object) -> None:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers, method="PUT")
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200


def _count(cluster: QdrantCluster, node: int) -> int:
    return int(cluster.nodes[node].post("/collections/things/points/count", {"exact": True})["count"])


def test_a_lost_nodes_copies_are_made_again_and_another_one_may_die(tmp_path: Path, qdrant_binary: Path) -> None:
    replicate_shards = _script()
    with run_qdrant_cluster(qdrant_binary, tmp_path) as cluster:
        layout = {"vectors": {"size": 4, "distance": "Dot"}, "shard_number": SHARDS, "replication_factor": 2}
        _put(f"{cluster.urls[0]}/collections/things", layout)
        points = [{"id": number, "vector": [number, 1, 2, 3]} for number in range(POINTS)]
        _put(f"{cluster.urls[0]}/collections/things/points?wait=true&ordering=medium", {"points": points})
        lost = cluster.nodes[2].get("/cluster")["peer_id"]

        cluster.kill(2)
        shutil.rmtree(cluster.nodes[2].folder)
        cluster.nodes[0].delete(f"/cluster/peer/{lost}?force=true")
        cluster.restart_dead()
        own = replicate_shards.Cluster([f"http://127.0.0.1:{1}", *cluster.urls])  # the first does not answer
        before, _ = own.copies("things")
        said = list(replicate_shards.replicate(own))
        after, _ = own.copies("things")

        assert min(len(nodes) for nodes in before.values()) == 1
        assert len(said) == sum(2 - len(nodes) for nodes in before.values())
        assert {len(nodes) for nodes in after.values()} == {2}
        assert list(replicate_shards.replicate(own)) == []
        cluster.kill(1)
        assert _count(cluster, 0) == _count(cluster, 2) == POINTS
