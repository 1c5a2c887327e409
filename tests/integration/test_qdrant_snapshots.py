"""Snapshots of Qdrant's collections are kept as a whole, and bring a lost collection back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from scripts.manifests.overlays import K8S
from tests.support.qdrant_cluster import run_qdrant_cluster
from tests.support.qdrant_server import QdrantServer

pytestmark = [pytest.mark.server]
_POINTS = 40


@pytest.fixture(scope="module")
def snapshots() -> Iterator[ModuleType]:
    spec = util.spec_from_file_location("qdrant_snapshots", K8S / "components" / "backup" / "qdrant_snapshots.py")
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def _fill(node: httpx.Client, collection: str, **more: Any) -> None:
    node.put(f"/collections/{collection}", json={"vectors": {"size": 2, "distance": "Dot"}, **more}).raise_for_status()
    points = [{"id": number, "vector": [1.0, float(number)], "payload": {"number": number}} for number in range(_POINTS)]
    node.put(f"/collections/{collection}/points", params={"wait": "true"}, json={"points": points}).raise_for_status()
    alias = {"create_alias": {"collection_name": collection, "alias_name": f"{collection}-now"}}
    node.post("/collections/aliases", json={"actions": [alias]}).raise_for_status()


def _points(node: httpx.Client, collection: str) -> list[tuple[int, list[float]]]:
    asked = {"limit": 2 * _POINTS, "with_vector": True}
    answer = node.post(f"/collections/{collection}/points/scroll", json=asked).raise_for_status()
    return [(point["id"], point["vector"]) for point in answer.json()["result"]["points"]]


def test_a_lost_collection_and_its_alias_come_back(snapshots: ModuleType, qdrant_server: QdrantServer, tmp_path: Path) -> None:
    with httpx.Client(base_url=qdrant_server.url, timeout=60) as node:
        _fill(node, "kept")
        before = _points(node, "kept")
        place = snapshots.place_of(str(tmp_path))
        name = snapshots.create([node], place, keep=2)

        node.delete("/collections/kept").raise_for_status()
        assert snapshots.restore([node], place) == name

        assert len(before) == _POINTS and _points(node, "kept-now") == before
        assert node.get("/collections/kept/snapshots").json()["result"] == []  # the server's copy is not left behind
        node.delete("/collections/kept").raise_for_status()


def test_unfinished_sets_are_not_restored_and_old_ones_are_deleted(snapshots: ModuleType, tmp_path: Path) -> None:
    place = snapshots.place_of(str(tmp_path))
    for name in ("20260101T000000Z", "20260102T000000Z", "20260103T000000Z"):
        place.write(f"{name}/complete.json", iter([b'{"aliases": [], "nodes": [{}]}']))
    place.write("20260104T000000Z/0/half.snapshot", iter([b"half"]))
    with httpx.Client(transport=httpx.MockTransport(_empty_server), base_url="http://qdrant") as node:
        assert snapshots.restore([node], place) == "20260103T000000Z"
        with pytest.raises(snapshots.SnapshotError, match="no complete set '20260104T000000Z'"):
            snapshots.restore([node], place, "20260104T000000Z")
        with pytest.raises(snapshots.SnapshotError, match=r"made of 1 nodes, store\.url names 2"):
            snapshots.restore([node, node], place)

        made = snapshots.create([node], place, keep=2)

    assert place.names() == ["20260103T000000Z", made] and place.names(complete=False) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["20260103T000000Z", made]


def test_a_file_that_arrives_damaged_is_no_snapshot(snapshots: ModuleType, tmp_path: Path) -> None:
    place = snapshots.place_of(str(tmp_path))
    with (
        httpx.Client(transport=httpx.MockTransport(_damaging_server), base_url="http://qdrant") as node,
        pytest.raises(snapshots.SnapshotError, match="arrived damaged"),
    ):
        snapshots.create([node], place, keep=1)

    assert place.names() == []


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_every_node_of_a_cluster_keeps_its_shards_and_a_new_cluster_takes_them(
    snapshots: ModuleType, qdrant_binary: Path, tmp_path: Path
) -> None:
    place = snapshots.place_of(str(tmp_path / "snapshots"))
    with _nodes(qdrant_binary, tmp_path / "first") as nodes:
        _fill(nodes[0], "kept", shard_number=6, replication_factor=2)
        before = sorted(_points(nodes[0], "kept"))
        snapshots.create(nodes, place, keep=1)
        nodes[0].delete("/collections/kept").raise_for_status()

        snapshots.restore(nodes, place)

        assert len(before) == _POINTS
        assert [sorted(_points(node, "kept-now")) for node in nodes] == [before] * len(nodes)
    with _nodes(qdrant_binary, tmp_path / "second") as nodes:
        snapshots.restore(nodes, place)

        assert [sorted(_points(node, "kept-now")) for node in nodes] == [before] * len(nodes)


@contextmanager
def _nodes(binary: Path, home: Path) -> Iterator[list[httpx.Client]]:
    with run_qdrant_cluster(binary, home) as cluster:
        nodes = [httpx.Client(base_url=url, timeout=60) for url in cluster.urls]
        yield nodes
        for node in nodes:
            node.close()


def _empty_server(request: httpx.Request) -> httpx.Response:
    empty = {"/collections": {"collections": []}, "/aliases": {"aliases": []}}
    return httpx.Response(200, json={"result": empty[request.url.path]})


def _damaging_server(request: httpx.Request) -> httpx.Response:
    if request.url.path == "/collections":
        return httpx.Response(200, json={"result": {"collections": [{"name": "one"}]}})
    if request.method == "POST":
        return httpx.Response(200, json={"result": {"name": "one.snapshot", "checksum": "0" * 64}})
    if request.url.path.endswith("/cluster"):
        return httpx.Response(200, json={"result": {"local_shards": [{"shard_id": 0}]}})
    if request.url.path.endswith("one.snapshot"):
        return httpx.Response(200, content=b"not what was written")
    return _empty_server(request)
