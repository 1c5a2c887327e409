"""Rules for Ray clusters that KubeRay's operator has in its code and not in its schemas, and some of Ray's own rules."""

from __future__ import annotations

import re
from typing import Any

from scripts.manifests.overlays import ROOT, Object, name_of, ray_clusters

_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST_NAME = 47  # KubeRay appends to it
_AUTH_SINCE = (2, 52)
_SHARED = "/dev/shm"  # noqa: S108 - where Ray keeps objects
_UPGRADES = {"NewCluster", "NewClusterWithIncrementalUpgrade", "None"}
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def quantity(text: object) -> float:
    """Return a Kubernetes quantity as a number: `500m` is .5, `2Gi` is 2147483648.

    Raises:
        ValueError: the text is no quantity.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(m|[kMG]|[KMGT]i)?", str(text))
    if match is None:
        raise ValueError(f"{text!r} is no quantity")
    number, unit = float(match.group(1)), match.group(2) or ""
    return number / 1000 if unit == "m" else number * _UNITS[unit]


def pinned_ray() -> str:
    """Return the version of Ray that the tests run with and the image installs."""
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    return re.search(r"^ray==(.+)$", pins, re.MULTILINE).group(1)  # type: ignore[union-attr]


def faults(item: Object) -> list[str]:
    """Return what the operator would refuse in a RayService or RayJob."""
    lines = [fault for where, cluster in ray_clusters(item) for fault in _cluster(where, cluster)]
    name = item["metadata"]["name"]
    if not _DNS_LABEL.fullmatch(name) or len(name) > _LONGEST_NAME:
        lines.append(f"{name_of(item)}: the name must be a DNS label of at most {_LONGEST_NAME} characters")
    if item["kind"] == "RayService":
        lines += _service(item)
    if item["kind"] == "RayJob":
        lines += _job(item)
    return lines


def _service(item: Object) -> list[str]:
    spec, name, lines = item["spec"], name_of(item), []
    upgrade = spec.get("upgradeStrategy", {})
    if upgrade.get("type") not in _UPGRADES:
        lines.append(f"{name}: upgradeStrategy.type {upgrade.get('type')!r} is none of {sorted(_UPGRADES)}")
    if upgrade.get("type") == "NewClusterWithIncrementalUpgrade":
        options = upgrade.get("clusterUpgradeOptions", {})
        if not spec["rayClusterConfig"].get("enableInTreeAutoscaling"):
            lines.append(f"{name}: an incremental upgrade needs enableInTreeAutoscaling")
        if not options.get("gatewayClassName"):
            lines.append(f"{name}: an incremental upgrade needs clusterUpgradeOptions.gatewayClassName")
        for field, most in (("maxSurgePercent", 100), ("stepSizePercent", 100), ("intervalSeconds", None)):
            value = options.get(field, 100 if field == "maxSurgePercent" else 0)
            if value <= 0 or (most is not None and value > most):
                lines.append(f"{name}: clusterUpgradeOptions.{field} is {value}")
    if spec["rayClusterConfig"]["headGroupSpec"].get("headService", {}).get("metadata", {}).get("name"):
        lines.append(f"{name}: KubeRay names the head's service")
    return lines


def _job(item: Object) -> list[str]:
    spec, name, lines = item["spec"], name_of(item), []
    if spec.get("ttlSecondsAfterFinished") and not spec.get("shutdownAfterJobFinishes"):
        lines.append(f"{name}: ttlSecondsAfterFinished needs shutdownAfterJobFinishes")
    if spec.get("suspend") and not spec.get("shutdownAfterJobFinishes"):
        lines.append(f"{name}: a job that is kept running afterwards cannot be suspended")
    bounds = ("preRunningDeadlineSeconds", "backoffLimit")
    return lines + [f"{name}: {field} must be said, and positive" for field in bounds if spec.get(field, 0) <= 0]


def _cluster(where: str, spec: dict[str, Any]) -> list[str]:
    lines = []
    version = tuple(int(part) for part in spec.get("rayVersion", "0").split(".")[:2])
    if spec.get("authOptions", {}).get("mode") == "token" and version < _AUTH_SINCE:
        lines.append(f"{where}: authOptions needs rayVersion 2.52 or later, not {spec.get('rayVersion')!r}")
    if spec.get("rayVersion") != pinned_ray():
        lines.append(f"{where}: rayVersion is {spec.get('rayVersion')!r}, the image has {pinned_ray()}")
    scales = bool(spec.get("enableInTreeAutoscaling"))
    groups = [("head", spec["headGroupSpec"]), *((group["groupName"], group) for group in spec.get("workerGroupSpecs", []))]
    for name, group in groups:
        lines += [f"{where} {name}: {fault}" for fault in _group(group, scales=scales)]
    return lines


def _group(group: dict[str, Any], *, scales: bool) -> list[str]:
    params, pod, lines = group.get("rayStartParams", {}), group["template"]["spec"], []
    if group.get("resources") and params.keys() & {"num-cpus", "num-gpus", "memory", "resources"}:
        lines.append("resources stand in rayStartParams and in `resources`: one of them")
    if scales and pod.get("restartPolicy", "Never") != "Never":
        lines.append("with the autoscaler, pods are not restarted: restartPolicy must be Never or left out")
    if scales and group.get("suspend"):
        lines.append("with the autoscaler, a group cannot be suspended")
    if scales and "maxReplicas" in group and not group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]:
        lines.append("replicas must lie between minReplicas and maxReplicas")
    if not all(isinstance(value, str) for value in params.values()):
        lines.append("values of rayStartParams are strings")
    return lines + _memory(params, pod)


def _memory(params: dict[str, str], pod: dict[str, Any]) -> list[str]:
    """Check /dev/shm, where Ray keeps objects: it counts as the container's memory."""
    ray = pod["containers"][0]
    mounts = {mount["mountPath"]: mount["name"] for mount in ray.get("volumeMounts", [])}
    volumes = {volume["name"]: volume for volume in pod.get("volumes", [])}
    shared = volumes.get(mounts.get(_SHARED, ""), {}).get("emptyDir", {})
    if shared.get("medium") != "Memory" or "sizeLimit" not in shared:
        return [f"{_SHARED} needs an emptyDir in memory, with a sizeLimit"]
    size, objects = quantity(shared["sizeLimit"]), quantity(params.get("object-store-memory", "0"))
    lines = []
    if not 0 < objects <= size:
        lines.append(f"object-store-memory is {objects:g} bytes, {_SHARED} holds {size:g}")
    if size > 0.5 * quantity(ray["resources"]["limits"]["memory"]):
        lines.append(f"{_SHARED} takes more than half of the memory")
    return lines
