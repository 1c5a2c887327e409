"""Pods of deploy/, gateways and backups reach what they need, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from scripts.manifests import operation
from scripts.manifests.overlays import OVERLAYS, of_kind
from tests.support.manifests import built, matches, one


def _reachable(overlay: str, source: dict[str, str] | None, target: dict[str, str], port: int, namespace: str = "") -> bool:
    """Whether the policies let a pod (of our namespace, or of another) open a connection to this port of a pod of ours."""
    policies = [each["spec"] for each in of_kind(list(built(overlay)), "NetworkPolicy")]

    def allowed(direction: str, pod: dict[str, str], peer: dict[str, str] | None) -> bool:
        own = [each for each in policies if direction.capitalize() in each["policyTypes"] and matches(each["podSelector"], pod)]
        assert own, "nothing is denied"
        side = "from" if direction == "ingress" else "to"
        return any(
            (side not in rule or any(_is(peer_rule, peer, namespace) for peer_rule in rule[side]))
            and ("ports" not in rule or any(each["port"] == port for each in rule["ports"]))
            for each in own
            for rule in each.get(direction, [])
        )

    return allowed("ingress", target, source) and (source is None or allowed("egress", source, target))


def _is(rule: dict[str, Any], labels: dict[str, str] | None, namespace: str) -> bool:
    if "namespaceSelector" in rule:
        spaces = {"kubernetes.io/metadata.name": namespace, **({namespace: "true"} if "/" in namespace else {})}
        return labels is None and matches(rule["namespaceSelector"], spaces)
    return labels is not None and "podSelector" in rule and matches(rule["podSelector"], labels)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_reach_what_they_need_and_nothing_else(overlay: str) -> None:
    label = "app.kubernetes.io/component"
    head, worker = ({label: name, "lodestone/ray": "service"} for name in ("head", "worker"))
    index, submitter = ({label: name, "lodestone/ray": "index"} for name in ("worker", "submitter"))
    qdrant, catalog, admin, scheduler = ({label: name} for name in ("qdrant", "catalog", "admin", "scheduler"))
    replica_port = 41_234  # Ray's own choice: a replica's gRPC port unpickles what it is sent

    assert _reachable(overlay, head, worker, replica_port) and _reachable(overlay, worker, worker, replica_port)
    assert all(_reachable(overlay, user, qdrant, 6334) for user in (worker, index, admin, qdrant))
    assert all(_reachable(overlay, user, catalog, 5432) for user in (worker, index, admin))
    assert _reachable(overlay, submitter, index, 8265)
    assert _reachable(overlay, admin, worker, 8000)
    assert _reachable(overlay, None, worker, 8000, namespace="lodestone/gateway")
    assert _reachable(overlay, None, head, 8265, namespace="kuberay-system")

    assert not _reachable(overlay, index, worker, replica_port)
    assert not _reachable(overlay, admin, worker, replica_port) and not _reachable(overlay, qdrant, worker, 8000)
    assert not _reachable(overlay, None, worker, replica_port, namespace="kuberay-system")
    assert not _reachable(overlay, None, head, 8265, namespace="lodestone/gateway")
    assert not _reachable(overlay, None, head, 6379, namespace="lodestone/gateway")
    assert not _reachable(overlay, scheduler, catalog, 5432) and not _reachable(overlay, scheduler, qdrant, 6333)
    assert not _reachable(overlay, qdrant, catalog, 5432)
    assert not _reachable(overlay, worker, qdrant, 6335)
    assert not _reachable(overlay, None, qdrant, 6333, namespace="default")


@pytest.mark.parametrize("overlay", ["gpu", "ha", "gpu-ha"])
def test_a_gateway_in_the_namespace_reaches_the_service_and_no_more(overlay: str) -> None:
    gateway = {"gateway.networking.k8s.io/gateway-name": "lodestone-edge"}
    worker = {"app.kubernetes.io/component": "worker", "lodestone/ray": "service"}

    assert _reachable(overlay, None, gateway, 443, namespace="anywhere")
    assert _reachable(overlay, gateway, worker, 8000)
    assert not _reachable(overlay, gateway, worker, 8265)
    assert not _reachable(overlay, gateway, {"app.kubernetes.io/component": "catalog"}, 5432)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_nobody_reaches_a_clouds_metadata(overlay: str) -> None:
    blocks = [
        peer["ipBlock"]
        for policy in of_kind(list(built(overlay)), "NetworkPolicy")
        for rule in policy["spec"].get("egress", [])
        for peer in rule["to"]
        if "ipBlock" in peer
    ]

    names = {operation.NODE_LOCAL_DNS, "10.96.0.10/32"}  # the cache of names on each node, on port 53 alone
    assert blocks and all("169.254.0.0/16" in block["except"] for block in blocks if block["cidr"] not in names)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_cache_of_names_on_each_node_is_asked_on_its_port_and_no_other(overlay: str) -> None:
    rules = one(overlay, "NetworkPolicy", "allow-dns")["spec"]["egress"]

    assert [{port["port"] for port in rule["ports"]} for rule in rules] == [{53}]
    assert {peer["ipBlock"]["cidr"] for peer in rules[0]["to"] if "ipBlock" in peer} >= {operation.NODE_LOCAL_DNS}


@pytest.mark.parametrize("overlay", ["gpu", "ha", "gpu-ha"])
def test_backups_reach_what_they_copy_and_nothing_else(overlay: str) -> None:
    label = "app.kubernetes.io/component"
    backup, snapshots, qdrant, catalog = ({label: name} for name in ("backup", "snapshots", "qdrant", "catalog"))

    assert _reachable(overlay, backup, catalog, 5432) and _reachable(overlay, snapshots, qdrant, 6333)
    assert not _reachable(overlay, backup, qdrant, 6333) and not _reachable(overlay, snapshots, catalog, 5432)
    assert not _reachable(overlay, backup, {label: "worker", "lodestone/ray": "service"}, 8000)
