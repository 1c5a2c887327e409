"""Would a cluster take what deploy/ says, and is it what it claims to be?"""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import util
from typing import Any

import httpx
import pytest
import yaml
from scripts import check_manifests
from scripts.fetch_qdrant import VERSION as QDRANT_TESTED
from scripts.manifests import kuberay, monitoring, schemas, serving
from scripts.manifests.overlays import (
    K8S,
    OVERLAYS,
    ROOT,
    Object,
    Pod,
    component_objects,
    name_of,
    of_kind,
    ray_clusters,
)
from tests.support.manifests import built, matches, one, pods_of

needs_crds = pytest.mark.skipif(not schemas.has_crds(), reason=f"KubeRay's schemas are not at {schemas.CRDS}")
OURS = ("lodestone:",)
# Nothing of a cluster's own can be asked of what an operator builds from a custom resource.
SPOT = ("karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType", "cloud.google.com/gke-spot", "scalesetpriority")


def ray_pods(overlay: str) -> list[Pod]:
    """Pods that run Ray, or speak to it."""
    return [pod for pod in pods_of(overlay) if "lodestone/ray" in pod.labels]


# ---- schemas -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_objects_have_the_shape_of_their_kinds_and_kuberay_would_take_them(overlay: str) -> None:
    assert check_manifests.check(list(built(overlay)), overlay) == []


def test_components_that_no_overlay_takes_have_the_shape_of_their_kinds() -> None:
    found = component_objects()

    assert "Ingress" in {each["kind"] for each in found}
    assert check_manifests.check(found, "components") == []


@pytest.mark.parametrize(
    ("kind", "path", "value", "said"),
    [
        ("StatefulSet", ("spec", "template", "spec", "containers", 0, "imagePullPolice"), "Always", "imagePullPolice"),
        ("NetworkPolicy", ("spec", "ingres"), [], "ingres"),
        ("PodDisruptionBudget", ("spec", "maxUnavailable"), [1], "maxUnavailable"),
        ("HTTPRoute", ("spec", "rules", 0, "backendRef"), [], "backendRef"),
        ("PodMonitor", ("spec", "podMetricsEndpoints", 0, "interval"), "15 seconds", "15 seconds"),
        ("ExternalSecret", ("spec", "data", 0, "remoteRef"), {"name": "x"}, "remoteRef"),
        ("Cluster", ("spec", "instances"), 0, "instances"),
    ],
)
def test_a_misspelt_field_is_noticed(kind: str, path: tuple[Any, ...], value: object, said: str) -> None:
    found = copy.deepcopy(next(each for each in built("ha") if each["kind"] == kind))
    _set(found, path, value)

    assert any(said in fault for fault in schemas.faults(found))


@needs_crds
@pytest.mark.parametrize(
    ("kind", "path", "value", "said"),
    [
        ("RayService", ("spec", "excludeHeadPodFromServiceSvc"), True, "excludeHeadPodFromServiceSvc"),
        ("RayService", ("spec", "rayClusterConfig", "authOptions", "mode"), "tokens", "tokens"),
        ("RayJob", ("spec", "backoffLimit"), "3", "backoffLimit"),
        ("RayJob", ("spec", "rayClusterSpec", "headGroupSpec", "template", "spec", "hostNetworks"), True, "hostNetworks"),
    ],
)
def test_a_misspelt_field_of_kuberays_kinds_is_noticed(kind: str, path: tuple[Any, ...], value: object, said: str) -> None:
    found = copy.deepcopy(one("gpu", kind))
    _set(found, path, value)

    assert any(said in fault for fault in schemas.faults(found))


def test_a_kind_without_a_schema_is_not_passed_over() -> None:
    unknown = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": {}}

    assert schemas.faults(unknown) == ["Thing/x: no schema of example.com/v1 Thing"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("spec", "rayClusterConfig", "enableInTreeAutoscaling", False), "needs enableInTreeAutoscaling"),
        (("spec", "upgradeStrategy", "clusterUpgradeOptions", "gatewayClassName", ""), "gatewayClassName"),
        (("spec", "upgradeStrategy", "clusterUpgradeOptions", "stepSizePercent", 101), "stepSizePercent is 101"),
        (("spec", "upgradeStrategy", "type", "Rolling"), "'Rolling' is none of"),
        (("spec", "rayClusterConfig", "rayVersion", "2.51.0"), "2.52 or later"),
        (("spec", "rayClusterConfig", "workerGroupSpecs", 0, "resources", {"CPU": "1"}), "one of them"),
        (("spec", "rayClusterConfig", "workerGroupSpecs", 0, "replicas", 99), "between minReplicas and maxReplicas"),
        (("spec", "rayClusterConfig", "headGroupSpec", "template", "spec", "restartPolicy", "Always"), "restartPolicy"),
        (("spec", "rayClusterConfig", "headGroupSpec", "rayStartParams", "object-store-memory", "99999999999"), "/dev/shm"),
        (("metadata", "name", "Lodestone"), "DNS label"),
    ],
)
def test_what_kuberay_would_refuse_is_refused(change: tuple[Any, ...], said: str) -> None:
    found = copy.deepcopy(one("gpu", "RayService"))
    _set(found, change[:-1], change[-1])

    assert any(said in fault for fault in kuberay.faults(found))


# ---- the Serve config --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_serve_config_is_current_and_fits_into_the_ray_cluster(overlay: str) -> None:
    assert serving.faults(overlay, list(built(overlay))) == []


def test_settings_of_this_machine_do_not_leak_into_a_serve_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LODESTONE_SERVE__MAX_ONGOING", "7")
    monkeypatch.setenv("LODESTONE_STORE__API_KEY", "hidden")

    assert serving.wanted("dev") == serving.path_of("dev").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_cpus": 64}, "no pod has room for a replica of Ingress"),
        ({"num_cpus": 1, "num_gpus": 1}, "no pod has room for a replica of Ingress"),
        ({"num_cpus": 4, "resources": {"lodestone_cpu": 1}}, "need 36 CPU, the Ray cluster at its largest has 24"),
    ],
)
def test_replicas_without_a_place_are_noticed(change: dict[str, Any], said: str) -> None:
    objects = copy.deepcopy(list(built("ha")))
    service = of_kind(objects, "RayService")[0]
    config = yaml.safe_load(service["spec"]["serveConfigV2"])
    config["applications"][0]["deployments"][0]["ray_actor_options"] = change
    room = list(serving._room(config, service["spec"]["rayClusterConfig"]))

    assert any(said in fault for fault in room), room


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_ray_containers_have_the_environment_that_serve_was_measured_with(overlay: str) -> None:
    from lodestone_serve.graph.config import ENVIRONMENT

    for pod in ray_pods(overlay):
        if pod.labels["lodestone/ray"] == "service":
            given = {each["name"]: each.get("value") for each in pod.spec["containers"][0]["env"]}
            assert {name: given.get(name) for name in ENVIRONMENT} == ENVIRONMENT, pod.where


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_services_secrets_are_in_the_environment_and_nowhere_else(overlay: str) -> None:
    from lodestone_serve.graph.secrets import secret_variables

    needed = {*secret_variables(serving.settings_of(overlay)), "PGPASSWORD", "LODESTONE_STORE__API_KEY"}
    for pod in (each for each in ray_pods(overlay) if "submitter" not in each.where):
        given = {each["name"]: each for each in pod.spec["containers"][0]["env"]}
        assert all("secretKeyRef" in given[name].get("valueFrom", {}) for name in needed), pod.where
    assert of_kind(list(built(overlay)), "Secret") == []


# ---- what the installations claim --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_container_is_root_writes_to_its_image_or_keeps_a_capability(overlay: str) -> None:
    for pod in pods_of(overlay):
        whole = pod.spec["securityContext"]
        assert whole["runAsNonRoot"] is True and whole["runAsUser"] > 0, pod.where
        assert whole["seccompProfile"] == {"type": "RuntimeDefault"}, pod.where
        assert not pod.spec.keys() & {"hostNetwork", "hostPID", "hostIPC"}, pod.where
        assert not any("hostPath" in volume for volume in pod.spec.get("volumes", [])), pod.where
        for container in pod.containers:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True, pod.where
            assert context["allowPrivilegeEscalation"] is False, pod.where
            assert context["capabilities"]["drop"] == ["ALL"], pod.where
            assert not context.get("privileged"), pod.where


@pytest.mark.parametrize("overlay", ["gpu", "ha"])
def test_the_autoscaler_that_kuberay_adds_is_held_to_the_same(overlay: str) -> None:
    cluster = one(overlay, "RayService")["spec"]["rayClusterConfig"]
    context = cluster["autoscalerOptions"]["securityContext"]

    assert cluster["enableInTreeAutoscaling"] is True
    assert context["readOnlyRootFilesystem"] is True and context["capabilities"]["drop"] == ["ALL"]
    # KubeRay gives it the volume of this name at /tmp/ray, where it writes.
    assert "ray-logs" in {volume["name"] for volume in cluster["headGroupSpec"]["template"]["spec"]["volumes"]}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_container_says_what_it_needs_and_what_it_may_take(overlay: str) -> None:
    for pod in pods_of(overlay):
        for container in pod.containers:
            requests, limits = container["resources"]["requests"], container["resources"]["limits"]
            assert {"cpu", "memory"} <= requests.keys() & limits.keys(), pod.where
            assert all(kuberay.quantity(requests[name]) <= kuberay.quantity(limits[name]) for name in requests), pod.where
        for volume in pod.spec.get("volumes", []):
            assert "emptyDir" not in volume or "sizeLimit" in volume["emptyDir"], f"{pod.where} {volume['name']}"


@pytest.mark.parametrize("overlay", ["gpu", "ha"])
def test_a_node_of_ray_really_has_the_memory_that_ray_counts_on(overlay: str) -> None:
    for pod in ray_pods(overlay):
        if "submitter" not in pod.where:
            resources = pod.spec["containers"][0]["resources"]
            assert resources["requests"]["memory"] == resources["limits"]["memory"], pod.where


def test_pods_of_the_gpu_service_wait_for_what_the_job_of_weights_leaves() -> None:
    job = one("gpu", "Job", "lodestone-models")["spec"]["template"]["spec"]["containers"][0]["args"][0]
    marker = re.search(r"touch (\S+)", job)
    waits = [pod for pod in ray_pods("gpu") if "RayService" in pod.where and "head" not in pod.where]

    assert marker is not None and len(waits) == 2
    assert all(marker.group(1) in pod.spec["initContainers"][0]["command"][-1] for pod in waits)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_whatever_runs_on_is_probed(overlay: str) -> None:
    for pod in pods_of(overlay):
        if pod.spec.get("restartPolicy") in {None, "Always"}:
            for container in pod.spec["containers"]:
                assert {"readinessProbe", "livenessProbe"} <= container.keys(), pod.where


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_workers_of_the_service_tell_ray_before_they_go_and_have_time_left_to_end(overlay: str) -> None:
    for pod in ray_pods(overlay):
        if "RayService" in pod.where and "head" not in pod.where:
            command = pod.spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1]
            waits = sum(int(seconds) for seconds in re.findall(r"(?:timeout|sleep) (\d+)", command))
            longest = serving.settings_of(overlay).query.deadline_ms / 1000
            assert "ray drain-node" in command and longest < waits < pod.spec["terminationGracePeriodSeconds"], pod.where


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_what_a_container_mounts_is_there(overlay: str) -> None:
    for pod in pods_of(overlay):
        templates = one(overlay, "StatefulSet", pod.where.split("/")[1])["spec"] if "StatefulSet" in pod.where else {}
        claimed = {claim["metadata"]["name"] for claim in templates.get("volumeClaimTemplates", [])}
        volumes = {volume["name"] for volume in pod.spec.get("volumes", [])} | claimed
        for container in pod.containers:
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes, pod.where


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_ray_writes_where_it_may(overlay: str) -> None:
    for pod in ray_pods(overlay):
        mounts = {mount["mountPath"]: mount for mount in pod.spec["containers"][0]["volumeMounts"]}
        wanted = {"/tmp"} if "submitter" in pod.where else {"/tmp", "/tmp/ray", "/dev/shm", "/models", "/var/lib/lodestone"}
        assert wanted <= mounts.keys(), pod.where
        assert not any(mounts[path].get("readOnly") for path in wanted), pod.where


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
    images = {pod.spec["containers"][0]["image"] for overlay in OVERLAYS for pod in pods_of(overlay) if "qdrant" in pod.where}

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


def test_only_index_workers_may_be_taken_away() -> None:
    tolerates = {
        pod.where
        for pod in pods_of("gpu")
        if any("spot" in str(rule) or "scalesetpriority" in str(rule) for rule in pod.spec.get("tolerations", []))
    }

    assert tolerates == {"RayJob/lodestone-index gpu"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_index_runs_end_are_tried_again_and_do_not_start_by_themselves(overlay: str) -> None:
    job = one(overlay, "RayJob")["spec"]

    assert job["suspend"] is True
    assert job["backoffLimit"] > 0 and 0 < job["preRunningDeadlineSeconds"] < job["activeDeadlineSeconds"]
    assert job["shutdownAfterJobFinishes"] is True and job["ttlSecondsAfterFinished"] > 0


def test_upgrades_are_incremental_on_gpus_and_by_a_new_cluster_elsewhere() -> None:
    kinds = {overlay: one(overlay, "RayService")["spec"]["upgradeStrategy"]["type"] for overlay in OVERLAYS}

    assert kinds == {"dev": "NewCluster", "gpu": "NewClusterWithIncrementalUpgrade", "ha": "NewCluster"}


def test_the_head_can_be_replaced_in_ha() -> None:
    cluster = one("ha", "RayService")["spec"]["rayClusterConfig"]
    redis = one("ha", "Service", "lodestone-redis")

    assert cluster["gcsFaultToleranceOptions"]["redisAddress"] == f"lodestone-redis:{redis['spec']['ports'][0]['port']}"
    assert "secretKeyRef" in cluster["gcsFaultToleranceOptions"]["redisPassword"]["valueFrom"]


@pytest.mark.parametrize("overlay", ["gpu", "ha"])
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


@pytest.mark.parametrize("overlay", ["gpu", "ha"])
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


# ---- who may speak to whom ---------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("overlay", ["gpu", "ha"])
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

    assert blocks and all("169.254.0.0/16" in block["except"] for block in blocks)


# ---- the image ---------------------------------------------------------------------------------------------------------------


def test_the_dockerfile_is_clean() -> None:
    assert check_manifests.lint_dockerfile() == []


def test_the_image_has_both_targets_and_installs_extras_that_exist() -> None:
    import tomllib

    text = check_manifests.DOCKERFILE.read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    installed = {name for found in re.findall(r"'\.\[([\w,]+)\]'", text) for name in found.split(",")}

    assert {"cpu", "gpu"} <= set(re.findall(r"^FROM \S+ AS (\S+)$", text, re.MULTILINE))
    assert installed <= extras.keys() and {"postgres", "clip", "diffusers"} <= installed
    assert re.search(r"^USER 1000:1000$", text, re.MULTILINE)
    assert re.search(r"^ARG PYTHON_IMAGE=python:3\.11\.\d+-slim-\w+$", text, re.MULTILINE)


def test_the_builder_is_sent_what_the_image_copies() -> None:
    text = check_manifests.DOCKERFILE.read_text(encoding="utf-8")
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")}
    copied = {name for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for name in line.split()}

    assert copied - {"."} <= sent
    assert all((ROOT / name).exists() for name in sent)


# ---- the script of the CronJob -----------------------------------------------------------------------------------------------


class _KubernetesApi(BaseHTTPRequestHandler):
    """The two calls that the script makes; keeps what was created in `created`."""

    template: Object
    created: list[Object]

    def do_GET(self) -> None:
        known = self.path == "/apis/ray.io/v1/namespaces/here/rayjobs/lodestone-index"
        self._answer(200 if known else 404, self.template if known else {"message": "not found"})

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.created.append(sent)
        self._answer(201, {**sent, "metadata": {**sent["metadata"], "name": sent["metadata"]["generateName"] + "x7k2p"}})

    def _answer(self, status: int, body: Object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def kubernetes_api() -> Iterator[tuple[httpx.Client, list[Object]]]:
    applied = copy.deepcopy(one("gpu", "RayJob"))
    applied["metadata"] |= {"uid": "1", "resourceVersion": "2", "annotations": dict.fromkeys((_APPLIED, "mine"), "x")}
    applied["status"] = {"jobDeploymentStatus": "Suspended"}
    handler = type("Api", (_KubernetesApi,), {"template": applied, "created": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{server.server_port}", trust_env=False) as client:
        yield client, handler.created
    server.shutdown()
    server.server_close()
    thread.join()


_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def _script() -> Any:
    spec = util.spec_from_file_location("create_index_job", K8S / "base" / "create_index_job.py")
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_run_is_a_copy_of_the_template_that_is_not_suspended(kubernetes_api: tuple[httpx.Client, list[Object]]) -> None:
    client, created = kubernetes_api

    name = _script().create(client, namespace="here")

    template = one("gpu", "RayJob")
    assert name == "lodestone-index-x7k2p"
    assert created[0]["spec"] == {**template["spec"], "suspend": False}
    assert created[0]["metadata"] == {
        "generateName": "lodestone-index-",
        "namespace": "lodestone",
        "labels": template["metadata"]["labels"],
        "annotations": {"mine": "x"},
    }
    assert schemas.faults({**created[0], "metadata": {"name": name}}) == []


def test_a_queued_run_waits_for_kueue_and_the_template_never_stands_in_the_queue(
    kubernetes_api: tuple[httpx.Client, list[Object]],
) -> None:
    client, created = kubernetes_api
    script = _script()

    script.create(client, namespace="here", queue="lodestone-index")

    assert created[0]["spec"]["suspend"] is True
    assert created[0]["metadata"]["labels"][script.QUEUE_LABEL] == one("gpu", "LocalQueue")["metadata"]["name"]
    assert script.QUEUE_LABEL not in one("gpu", "RayJob")["metadata"]["labels"]


def test_people_may_give_a_run_another_command_line() -> None:
    template = one("gpu", "RayJob")
    command = [sys.executable, str(K8S / "base" / "create_index_job.py"), "--print", "--entrypoint", "lodestone verify --all"]

    printed = json.loads(subprocess.run(command, input=json.dumps(template), capture_output=True, text=True, check=True).stdout)

    assert printed["spec"] == {**template["spec"], "suspend": False, "entrypoint": "lodestone verify --all"}


def test_a_refusal_of_the_api_is_passed_on(kubernetes_api: tuple[httpx.Client, list[Object]]) -> None:
    client, created = kubernetes_api

    with pytest.raises(httpx.HTTPStatusError, match="404"):
        _script().create(client, namespace="elsewhere")
    assert created == []


def _set(found: Any, path: tuple[Any, ...], value: object) -> None:
    for step in path[:-1]:
        found = found[step]
    found[path[-1]] = value
