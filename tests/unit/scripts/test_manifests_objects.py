"""The objects of deploy/ fit together: names, images, rights, upgrades, what survives the loss of a node."""

from __future__ import annotations

import re

import pytest
from scripts.fetch_qdrant import VERSION as QDRANT_TESTED
from scripts.manifests import monitoring, serving
from scripts.manifests.overlays import OVERLAYS, name_of, of_kind, ray_clusters
from tests.support.manifests import built, matches, one, pods_of

OURS = ("lodestone:",)
# Nothing of a cluster's own can be asked of what an operator builds from a custom resource.
SPOT = ("karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType", "cloud.google.com/gke-spot", "scalesetpriority")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_names_that_objects_use_are_names_of_objects(overlay: str) -> None:
    objects = list(built(overlay))
    names = {(each["kind"], each["metadata"]["name"]) for each in objects}
    for pod in pods_of(overlay):
        assert ("ServiceAccount", pod.spec["serviceAccountName"]) in names, pod.where
        for volume in pod.spec.get("volumes", []):
            if "persistentVolumeClaim" in volume:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in names, pod.where
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in names, pod.where


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_images_are_pinned_and_ours_is_the_same_everywhere(overlay: str) -> None:
    images = {container["image"] for pod in pods_of(overlay) for container in pod.containers}

    assert all(re.search(r":[\w.-]*\d[\w.-]*$|@sha256:[0-9a-f]{64}$", image) for image in images), images
    assert not any(image.endswith(":latest") for image in images)
    assert len([image for image in images if image.startswith(OURS)]) == 1


def test_qdrant_is_the_version_that_the_tests_run_against() -> None:
    stores = [pod for overlay in OVERLAYS for pod in pods_of(overlay) if pod.where == "StatefulSet/lodestone-qdrant"]
    images = {pod.spec["containers"][0]["image"] for pod in stores}

    assert images == {f"qdrant/qdrant:v{QDRANT_TESTED}-unprivileged"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_only_those_who_ask_kubernetes_get_a_token(overlay: str) -> None:
    asks = {pod.where for pod in pods_of(overlay) if pod.spec.get("automountServiceAccountToken") is not False}

    assert asks == {"RayService/lodestone head", "RayJob/lodestone-index head", "CronJob/lodestone-index"}
    assert all(each["automountServiceAccountToken"] is False for each in of_kind(list(built(overlay)), "ServiceAccount"))
    assert all(pod.spec["enableServiceLinks"] is False for pod in pods_of(overlay))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_scheduler_may_read_the_template_and_create_runs_and_nothing_else(overlay: str) -> None:
    role = one(overlay, "Role", "lodestone-scheduler")

    assert of_kind(list(built(overlay)), "ClusterRole", "ClusterRoleBinding") == []
    assert role["rules"] == [
        {"apiGroups": ["ray.io"], "resources": ["rayjobs"], "verbs": ["get"], "resourceNames": ["lodestone-index"]},
        {"apiGroups": ["ray.io"], "resources": ["rayjobs"], "verbs": ["create"]},
    ]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_heads_do_no_work_ask_for_a_token_and_are_never_on_spot(overlay: str) -> None:
    for found in of_kind(list(built(overlay)), "RayService", "RayJob"):
        for where, cluster in ray_clusters(found):
            head = cluster["headGroupSpec"]
            terms = head["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            refused = {rule["key"] for rule in terms["nodeSelectorTerms"][0]["matchExpressions"] if rule["operator"] == "NotIn"}
            assert head["rayStartParams"]["num-cpus"] == "0", where
            assert cluster["authOptions"] == {"mode": "token", "secretName": "lodestone-ray"}, where
            assert all(any(known in key for key in refused) for known in SPOT), where


@pytest.mark.parametrize("overlay", ["gpu", "gpu-ha"])
def test_only_index_workers_may_be_taken_away(overlay: str) -> None:
    tolerates = {
        pod.where
        for pod in pods_of(overlay)
        if any("spot" in str(rule) or "scalesetpriority" in str(rule) for rule in pod.spec.get("tolerations", []))
    }

    assert tolerates == {"RayJob/lodestone-index gpu"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_index_runs_end_are_tried_again_and_do_not_start_by_themselves(overlay: str) -> None:
    job = one(overlay, "RayJob")["spec"]

    assert job["suspend"] is True
    assert job["backoffLimit"] > 0 and job["preRunningDeadlineSeconds"] > 0
    assert job["shutdownAfterJobFinishes"] is True and job["ttlSecondsAfterFinished"] > 0


def test_upgrades_are_incremental_on_gpus_and_by_a_new_cluster_elsewhere() -> None:
    kinds = {overlay: one(overlay, "RayService")["spec"]["upgradeStrategy"]["type"] for overlay in OVERLAYS}

    assert kinds == {
        "dev": "NewCluster",
        "gpu": "NewClusterWithIncrementalUpgrade",
        "ha": "NewCluster",
        "gpu-ha": "NewClusterWithIncrementalUpgrade",
    }


@pytest.mark.parametrize("overlay", ["ha", "gpu-ha"])
def test_the_head_can_be_replaced(overlay: str) -> None:
    cluster = one(overlay, "RayService")["spec"]["rayClusterConfig"]
    redis = one(overlay, "Service", "lodestone-redis")

    assert cluster["gcsFaultToleranceOptions"]["redisAddress"] == f"lodestone-redis:{redis['spec']['ports'][0]['port']}"
    assert "secretKeyRef" in cluster["gcsFaultToleranceOptions"]["redisPassword"]["valueFrom"]


@pytest.mark.parametrize("overlay", ["gpu", "ha", "gpu-ha"])
def test_qdrant_survives_the_loss_of_a_node(overlay: str) -> None:
    qdrant = one(overlay, "StatefulSet", "lodestone-qdrant")["spec"]
    rule = qdrant["template"]["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    budget = one(overlay, "PodDisruptionBudget", "lodestone-qdrant")["spec"]
    urls = serving.settings_of(overlay).store.urls

    assert rule["topologyKey"] == "kubernetes.io/hostname"
    assert matches(rule["labelSelector"], qdrant["template"]["metadata"]["labels"])
    assert matches(budget["selector"], qdrant["template"]["metadata"]["labels"]) and budget["maxUnavailable"] == 1
    assert urls == tuple(f"http://lodestone-qdrant-{node}.lodestone-qdrant:6333" for node in range(qdrant["replicas"]))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_budgets_and_monitors_choose_pods_that_exist(overlay: str) -> None:
    for found in of_kind(list(built(overlay)), "PodDisruptionBudget", "PodMonitor"):
        chosen = [pod for pod in pods_of(overlay) if matches(found["spec"]["selector"], pod.labels)]
        assert chosen, name_of(found)
        for endpoint in found["spec"].get("podMetricsEndpoints", []):
            ports = [{port["name"] for port in pod.spec["containers"][0]["ports"]} for pod in chosen]
            assert all(endpoint["port"] in names for names in ports), name_of(found)


@pytest.mark.parametrize("overlay", ["gpu", "ha", "gpu-ha"])
def test_metrics_have_the_names_that_a_service_without_a_cluster_gives_them(overlay: str) -> None:
    for monitor in ("lodestone-ray-heads", "lodestone-ray-workers"):
        rules = one(overlay, "PodMonitor", monitor)["spec"]["podMetricsEndpoints"][0]["metricRelabelings"]
        renamed = re.fullmatch(rules[0]["regex"], "ray_lodestone_requests_total")
        assert (
            renamed is not None and renamed.expand(rules[0]["replacement"].replace("$1", r"\1")) == "lodestone_requests_total"
        )
        assert re.fullmatch(rules[0]["regex"], "ray_serve_num_http_requests_total") is None


def test_the_alert_rules_are_current() -> None:
    assert monitoring.faults() == []
