"""Each pod of deploy/ is what it claims to be: its rights, its resources, its probes, its volumes."""

from __future__ import annotations

import re

import pytest
from scripts.manifests import kuberay, serving
from scripts.manifests.overlays import OVERLAYS
from tests.support.manifests import one, pods_of, ray_pods


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


@pytest.mark.parametrize("overlay", ["gpu", "ha", "gpu-ha"])
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


@pytest.mark.parametrize("overlay", ["gpu", "ha", "gpu-ha"])
def test_a_node_of_ray_really_has_the_memory_that_ray_counts_on(overlay: str) -> None:
    for pod in ray_pods(overlay):
        if "submitter" not in pod.where:
            resources = pod.spec["containers"][0]["resources"]
            assert resources["requests"]["memory"] == resources["limits"]["memory"], pod.where


@pytest.mark.parametrize("overlay", ["gpu", "gpu-ha"])
def test_pods_with_models_wait_for_what_the_job_of_weights_leaves(overlay: str) -> None:
    job = one(overlay, "Job", "lodestone-models")["spec"]["template"]["spec"]["containers"][0]["args"][0]
    marker = re.search(r"touch (\S+)", job)
    waits = [pod for pod in ray_pods(overlay) if "submitter" not in pod.where and pod.where != "RayService/lodestone head"]

    assert marker is not None and len(waits) == 4  # CPU and GPU nodes of the service, driver and workers of index runs
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
