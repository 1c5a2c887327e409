"""An installation would run on: drains, look-ups, secrets, sizes, deadlines, labels, each with a manifest that is wrong."""

from __future__ import annotations

import copy
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.manifests import capacity, kuberay, operation, schemas, serving
from scripts.manifests.overlays import K8S, OVERLAYS, Object, of_kind, pods, tool
from tests.support.manifests import built, one

SIZED = ("gpu", "ha", "gpu-ha")


def _changed(overlay: str, kind: str, name: str, path: tuple[Any, ...], value: object) -> list[Object]:
    """The objects of an overlay, one of them changed; a value of None takes the field away."""
    objects = copy.deepcopy(list(built(overlay)))
    inner: Any = next(each for each in of_kind(objects, kind) if each["metadata"]["name"] == name)
    for step in path[:-1]:
        inner = inner[step]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return objects


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_nothing_is_wrong_with_running_an_overlay(overlay: str) -> None:
    objects = list(built(overlay))

    assert operation.faults(objects) == []
    assert capacity.faults(overlay, objects) == []


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"maxUnavailable": 1}, "only an integer minAvailable lets a node drain"),
        ({"minAvailable": "50%"}, "only an integer minAvailable lets a node drain"),
        ({"minAvailable": 3}, "minAvailable is 3 of at fewest 3 pods: no node could be drained"),
    ],
)
def test_a_budget_that_blocks_every_drain_is_noticed(spec: dict[str, Any], said: str) -> None:
    selector = one("ha", "PodDisruptionBudget", "lodestone-workers")["spec"]["selector"]
    objects = _changed("ha", "PodDisruptionBudget", "lodestone-workers", ("spec",), {"selector": selector, **spec})

    assert [fault for fault in operation.faults(objects) if said in fault]


@pytest.mark.parametrize("overlay", SIZED)
def test_a_drain_takes_one_pod_of_the_service_at_a_time(overlay: str) -> None:
    budget = one(overlay, "PodDisruptionBudget", "lodestone-workers")["spec"]
    groups = one(overlay, "RayService")["spec"]["rayClusterConfig"]["workerGroupSpecs"]

    assert 1 <= budget["minAvailable"] < sum(group["minReplicas"] for group in groups)


def test_the_one_pod_of_the_trial_may_be_drained() -> None:
    assert [each["metadata"]["name"] for each in of_kind(list(built("dev")), "PodDisruptionBudget")] == ["lodestone-qdrant"]


def test_look_ups_that_fail_with_a_cache_on_each_node_are_noticed() -> None:
    peers = one("ha", "NetworkPolicy", "allow-dns")["spec"]["egress"][0]["to"]
    pods_only = [peer for peer in peers if "ipBlock" not in peer]
    old = _changed("ha", "NetworkPolicy", "allow-dns", ("spec", "egress", 0, "to"), pods_only)
    half = _changed("ha", "NetworkPolicy", "allow-dns", ("spec", "egress", 0, "to"), peers[:2])

    assert len(operation.faults(old)) == 2 and all("NodeLocal DNSCache" in fault for fault in operation.faults(old))
    assert ["the service kube-dns" in fault for fault in operation.faults(half)] == [True]


def test_a_run_of_days_is_not_ended_every_day() -> None:
    old = _changed("gpu", "RayJob", "lodestone-index", ("spec", "activeDeadlineSeconds"), 86_400)
    backup = ("spec", "jobTemplate", "spec", "activeDeadlineSeconds")

    assert ["ends every run after 86400 s" in fault for fault in operation.faults(old)] == [True]
    assert operation.faults(_changed("gpu", "CronJob", "lodestone-backup", backup, 3600))
    assert operation.faults(_changed("gpu", "CronJob", "lodestone-index", backup, 3600)) == []  # that one only creates a run


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_heads_of_the_service_and_index_workers_hold_no_password_of_catalog_or_store(overlay: str) -> None:
    read = {pod.where: operation.secrets_of(pod) for pod in pods(list(built(overlay)))}

    assert read["RayService/lodestone head"] == frozenset()
    for where, names in read.items():
        if where.startswith("RayJob/") and "head" not in where:
            assert names <= {"lodestone-bucket"}, where


def test_a_secret_too_many_or_too_few_is_noticed() -> None:
    head = ("spec", "rayClusterConfig", "headGroupSpec", "template", "spec", "containers", 0, "env")
    env = one("ha", "RayService")["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]
    password = {"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": {"name": "lodestone-catalog", "key": "password"}}}
    old = _changed("ha", "RayService", "lodestone", head, [*env, password])
    without = ("spec", "template", "spec", "containers", 0, "env")
    lacking = _changed("ha", "StatefulSet", "lodestone-qdrant", without, [])
    mounted = ("spec", "template", "spec", "volumes")
    volumes = [{"name": "x", "secret": {"secretName": "lodestone-tls"}}]

    assert operation.faults(old) == ["RayService/lodestone head: reads the secret lodestone-catalog, which it does not need"]
    assert operation.faults(lacking) == ["StatefulSet/lodestone-qdrant: lacks the secret lodestone-qdrant"]
    assert operation.faults(_changed("ha", "StatefulSet", "lodestone-redis", mounted, volumes))


def test_an_account_that_reaches_buckets_for_pods_which_need_none_is_noticed() -> None:
    submitter = ("spec", "submitterPodTemplate", "spec", "serviceAccountName")
    old = _changed("ha", "RayJob", "lodestone-index", submitter, "lodestone-worker")

    assert [fault for fault in operation.faults(old) if "ServiceAccount/lodestone-worker" in fault]


@pytest.mark.parametrize("kind", ["PodMonitor", "PrometheusRule"])
def test_what_the_prometheus_operator_would_not_see_is_noticed(kind: str) -> None:
    found = of_kind(list(built("ha")), kind)[0]
    old = _changed("ha", kind, found["metadata"]["name"], ("metadata", "labels"), {"app.kubernetes.io/part-of": "lodestone"})

    assert ["has no label 'release'" in fault for fault in operation.faults(old)] == [True]


@pytest.mark.parametrize("overlay", SIZED)
def test_the_release_of_the_operator_is_a_value_of_the_installation(overlay: str) -> None:
    release = capacity.installation(overlay)["PROMETHEUS_RELEASE"]

    assert {
        item["metadata"]["labels"]["release"] for item in of_kind(list(built(overlay)), "PodMonitor", "PrometheusRule")
    } == {release}


def _with_component(tmp_path: Path, component: str) -> list[Object]:
    """The objects of `ha` with one component more."""
    beside = os.path.relpath(K8S, tmp_path)
    kustomization = {"resources": [f"{beside}/overlays/ha"], "components": [f"{beside}/components/{component}"]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    command = [tool("kubectl"), "kustomize", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return list(yaml.safe_load_all(done.stdout))


@pytest.mark.parametrize(
    ("component", "addresses"),
    [
        ("identity-eks", {("169.254.170.23/32", 80)}),
        ("identity-gke", {("169.254.169.252/32", 988), ("169.254.169.254/32", 80)}),
        ("identity-azure", set()),
        ("private-endpoints", {("10.0.0.0/28", 443)}),
    ],
)
def test_a_clouds_identity_and_private_endpoints_are_reached_where_they_are_configured(
    component: str, addresses: set[tuple[str, int]], tmp_path: Path
) -> None:
    objects = _with_component(tmp_path, component)
    names = {item["metadata"]["name"] for item in built("ha") if item["kind"] == "NetworkPolicy"}
    added = [item for item in of_kind(objects, "NetworkPolicy") if item["metadata"]["name"] not in names]
    reached = {
        (peer["ipBlock"]["cidr"], port["port"])
        for policy in added
        for rule in policy["spec"]["egress"]
        for peer in rule["to"]
        for port in rule["ports"]
    }

    assert reached == addresses
    assert [fault for item in objects for fault in schemas.faults(item) if item["kind"] != "RayJob"] == []
    assert operation.faults(objects) == []
    for policy in added:  # those who use buckets, and nobody else
        for pod in pods(objects):
            chosen = operation.chooses(policy["spec"]["podSelector"], pod.labels)
            assert chosen or "lodestone-bucket" not in operation.secrets_of(pod), pod.where


def test_azures_identity_is_asked_for_by_the_pods_that_use_buckets(tmp_path: Path) -> None:
    objects = _with_component(tmp_path, "identity-azure")
    marked = {pod.where for pod in pods(objects) if pod.labels.get("azure.workload.identity/use") == "true"}

    assert marked == {pod.where for pod in pods(objects) if "lodestone-bucket" in operation.secrets_of(pod)}


@pytest.mark.parametrize("overlay", SIZED)
def test_qdrant_has_what_the_planner_says(overlay: str) -> None:
    figures = capacity.planned(overlay)
    qdrant = one(overlay, "StatefulSet", "lodestone-qdrant")["spec"]
    memory = kuberay.quantity(qdrant["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"])
    disk = kuberay.quantity(qdrant["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"])

    assert figures is not None and qdrant["replicas"] == figures.qdrant_nodes
    assert figures.store.ram_to_buy_gb * 1e9 <= memory * qdrant["replicas"] < 2 * figures.store.ram_to_buy_gb * 1e9 + 12 * 2**30
    assert figures.store.disk_to_buy_gb * 1e9 <= disk * qdrant["replicas"]


def test_a_qdrant_too_small_for_the_pictures_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    values = capacity.installation("gpu")
    monkeypatch.setattr(capacity, "installation", lambda _: {**values, "PICTURES": "400M"})
    said = capacity.faults("gpu", list(built("gpu")))

    assert any("qdrant.yaml is not what the planner says" in fault for fault in said)
    assert any("400M pictures need" in fault and "of memory" in fault for fault in said)
    assert any("of disk" in fault for fault in said) and any("store.shards is 12" in fault for fault in said)


def test_more_connections_than_postgresql_takes_are_noticed() -> None:
    old = _changed("ha", "Cluster", "lodestone-catalog", ("spec", "postgresql", "parameters"), {})
    args = ("spec", "template", "spec", "containers", 0, "args")
    few = _changed("gpu", "StatefulSet", "lodestone-catalog", args, ["-c", "max_connections=200"])

    assert ["PostgreSQL has 100" in fault for fault in capacity.faults("ha", old)] == [True]
    assert ["PostgreSQL has 200" in fault for fault in capacity.faults("gpu", few)] == [True]
    # Twice six ingress and six encoder replicas, three commands, three reserved.
    assert capacity.connections("ha") == 2 * (6 * 15 + 6 * 2) + 3 * 15 + 3
    # Six ingress, four encoder, six generator and four tagging replicas; fusion opens no catalog.
    assert capacity.connections("gpu-ha") == 2 * (6 * 15 + 14 * 2) + 3 * 15 + 3


def test_a_graph_that_may_not_share_nodes_needs_as_many() -> None:
    objects = copy.deepcopy(list(built("ha")))
    service = of_kind(objects, "RayService")[0]
    config = yaml.safe_load(service["spec"]["serveConfigV2"])
    ingress = config["applications"][0]["deployments"][0]

    assert ingress["max_replicas_per_node"] == 2
    ingress["max_replicas_per_node"] = 1
    room = list(serving._room(config, service["spec"]["rayClusterConfig"]))
    assert room == ["Ingress has up to 6 replicas, 12 during an update, and 6 nodes take 1 each"]


@pytest.mark.parametrize(("overlay", "stages"), [("ha", 2), ("gpu-ha", 5)])
def test_the_loss_of_a_node_leaves_a_warm_replica_of_every_stage(overlay: str, stages: int) -> None:
    config = yaml.safe_load(one(overlay, "RayService")["spec"]["serveConfigV2"])
    deployments = config["applications"][0]["deployments"]

    assert len(deployments) == stages
    for deployment in deployments:
        least = deployment["autoscaling_config"]["min_replicas"]
        # A node may hold two of the stages that an update starts on the same nodes; Serve spreads them.
        assert least >= 2 and deployment["max_replicas_per_node"] <= least, deployment["name"]


def test_graphics_cards_and_the_loss_of_a_node_go_together() -> None:
    cluster = one("gpu-ha", "RayService")["spec"]["rayClusterConfig"]
    groups = {group["groupName"]: group for group in cluster["workerGroupSpecs"]}
    settings = serving.settings_of("gpu-ha")

    assert "redisAddress" in cluster["gcsFaultToleranceOptions"]
    assert one("gpu-ha", "Cluster", "lodestone-catalog")["spec"]["instances"] == 3
    assert settings.store.placement.replication == 2 and len(settings.store.urls) == 3
    assert groups["gpu"]["minReplicas"] >= 2 and groups["cpu"]["minReplicas"] >= 3
    assert settings.serve.graph.encoders.min_replicas >= 2 and settings.serve.graph.ingress.min_replicas >= 2
    for group in groups.values():
        spread = group["template"]["spec"]["topologySpreadConstraints"][0]
        assert spread["whenUnsatisfiable"] == "DoNotSchedule" and spread["matchLabelKeys"] == ["ray.io/group"]
        env = {each["name"] for each in group["template"]["spec"]["containers"][0]["env"]}
        assert "RAY_gcs_rpc_server_reconnect_timeout_s" in env, "workers would not wait for a head that is being replaced"


def test_fusion_and_tagging_scale_by_themselves_on_the_nodes_of_the_ingress() -> None:
    service = one("gpu-ha", "RayService")["spec"]
    deployments = {each["name"]: each for each in yaml.safe_load(service["serveConfigV2"])["applications"][0]["deployments"]}
    group = next(each for each in service["rayClusterConfig"]["workerGroupSpecs"] if each["groupName"] == "cpu")
    cores = serving._offered(group)["CPU"]

    for name in ("Fusion", "Tagging"):
        actor, scaling = deployments[name]["ray_actor_options"], deployments[name]["autoscaling_config"]
        assert actor["resources"] == {"lodestone_cpu": 0.001} and "num_gpus" not in actor
        assert 2 <= scaling["min_replicas"] < scaling["max_replicas"]
        assert scaling["target_ongoing_requests"] < deployments[name]["max_ongoing_requests"], (
            "it would be full before it grows"
        )
    on_cpus = [each for each in deployments.values() if "lodestone_cpu" in each["ray_actor_options"]["resources"]]
    least, most = (
        sum(each["autoscaling_config"][bound] * each["ray_actor_options"]["num_cpus"] for each in on_cpus)
        for bound in ("min_replicas", "max_replicas")
    )
    assert least <= group["minReplicas"] * cores, "an idle service would need more pods than the fewest"
    assert 2 * most <= group["maxReplicas"] * cores, "an update starts new replicas beside the old ones"


@pytest.mark.parametrize("overlay", SIZED)
def test_backups_are_made_by_the_clock_one_at_a_time(overlay: str) -> None:
    for name, command in (
        ("lodestone-backup", "lodestone backup create"),
        ("lodestone-qdrant-snapshots", "snapshots.py create"),
    ):
        spec = one(overlay, "CronJob", name)["spec"]
        container = spec["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
        assert command in container["args"][0] and "$BACKUP_TO" in container["args"][0]
        assert spec["concurrencyPolicy"] == "Forbid" and not spec.get("suspend")
        sources = [
            each["valueFrom"]["configMapKeyRef"] for each in container["env"] if "configMapKeyRef" in each.get("valueFrom", {})
        ]
        data = one(overlay, "ConfigMap", "lodestone-installation")["data"]
        assert {source["key"] for source in sources} == {"BACKUP_TO", "BACKUP_KEEP"} <= data.keys()
