"""A cluster would take what deploy/ says: shapes of objects, KubeRay's rules, and the Serve config."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from scripts import check_manifests
from scripts.manifests import kuberay, schemas, serving
from scripts.manifests.overlays import OVERLAYS, component_objects, of_kind
from tests.support.manifests import built, one, ray_pods

needs_crds = pytest.mark.skipif(not schemas.has_crds(), reason=f"KubeRay's schemas are not at {schemas.CRDS}")


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
    from lodestone_serve.traffic.proxy_middleware import proxy_variables

    wanted = ENVIRONMENT | proxy_variables(serving.settings_of(overlay))
    for pod in ray_pods(overlay):
        if pod.labels["lodestone/ray"] == "service":
            given = {each["name"]: each.get("value") for each in pod.spec["containers"][0]["env"]}
            assert {name: given.get(name) for name in wanted} == wanted, pod.where


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_services_secrets_are_in_the_environment_and_nowhere_else(overlay: str) -> None:
    from lodestone_serve.graph.secrets import secret_variables

    needed = {*secret_variables(serving.settings_of(overlay)), "PGPASSWORD", "LODESTONE_STORE__API_KEY"}
    replicas = [pod for pod in ray_pods(overlay) if "RayService" in pod.where and "head" not in pod.where]
    driver = next(pod for pod in ray_pods(overlay) if pod.where == "RayJob/lodestone-index head")
    for pod in (*replicas, driver):
        given = {each["name"]: each for each in pod.spec["containers"][0]["env"]}
        assert all("secretKeyRef" in given[name].get("valueFrom", {}) for name in needed), pod.where
    assert of_kind(list(built(overlay)), "Secret") == []


def _set(found: Any, path: tuple[Any, ...], value: object) -> None:
    for step in path[:-1]:
        found = found[step]
    found[path[-1]] = value
