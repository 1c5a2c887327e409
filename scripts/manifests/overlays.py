"""Overlays as kustomize builds them: their objects, and every pod that the objects lead to."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
K8S = ROOT / "deploy" / "k8s"
OVERLAYS = ("dev", "gpu", "ha", "gpu-ha")
_BUILD_SECONDS = 60

Object = dict[str, Any]


@dataclass(frozen=True)
class Pod:
    """A pod that an object leads to.

    Attributes:
        where: Names of the object and of the pod in it.
        template: The pod's metadata and spec.
    """

    where: str
    template: dict[str, Any]

    @property
    def spec(self) -> dict[str, Any]:
        """Return the spec of the pod."""
        spec: dict[str, Any] = self.template["spec"]
        return spec

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of the pod."""
        labels: dict[str, str] = self.template.get("metadata", {}).get("labels", {})
        return labels

    @property
    def containers(self) -> list[dict[str, Any]]:
        """Return the containers of the pod, init containers first."""
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]


def tool(name: str) -> str:
    """Return the path of a command, from this environment, else from the machine.

    Raises:
        FileNotFoundError: there is no such command.
    """
    beside = Path(sys.executable).parent / name
    path = str(beside) if beside.exists() else shutil.which(name)
    if path is None:
        raise FileNotFoundError(f"no {name!r} here: pip install -e '.[dev]' brings it")
    return path


def build(overlay: str) -> list[Object]:
    """Build an overlay and return its objects.

    Raises:
        ValueError: kustomize refuses it; the message says why.
    """
    command = [tool("kubectl"), "kustomize", str(K8S / "overlays" / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)
    if done.returncode != 0:
        raise ValueError(f"kustomize cannot build the overlay {overlay!r}: {done.stderr.strip()}")
    return [item for item in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if item]


def component_objects(component: str = "*") -> list[Object]:
    """Return the objects of a component, or of all components, also of those that no overlay uses. Patches are no objects."""
    files = [file for file in sorted((K8S / "components").glob(f"{component}/*.yaml")) if file.name != "kustomization.yaml"]
    parts = [part for file in files for part in yaml.load_all(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)]
    return [part for part in parts if isinstance(part, dict)]


def name_of(item: Object) -> str:
    """Return the name of an object as `Kind/name`."""
    return f"{item.get('kind')}/{item.get('metadata', {}).get('name')}"


def of_kind(objects: list[Object], *kinds: str) -> list[Object]:
    """Return the objects of some kinds."""
    return [item for item in objects if item["kind"] in kinds]


def ray_clusters(item: Object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (where, spec) of each RayCluster in a RayService, a RayJob or a RayCluster."""
    field = {"RayService": "rayClusterConfig", "RayJob": "rayClusterSpec"}.get(item["kind"])
    if field is not None:
        yield f"{name_of(item)} {field}", item["spec"][field]
    elif item["kind"] == "RayCluster":
        yield name_of(item), item["spec"]


def pods(objects: list[Object]) -> Iterator[Pod]:
    """Yield every pod that an object's own controller or KubeRay makes, without what those add."""
    for item in objects:
        name, spec = name_of(item), item.get("spec", {})
        if item["kind"] == "Pod":
            yield Pod(name, item)
        elif item["kind"] == "CronJob":
            yield Pod(name, spec["jobTemplate"]["spec"]["template"])
        elif item["kind"] in {"Deployment", "StatefulSet", "DaemonSet", "Job"}:
            yield Pod(name, spec["template"])
        if "submitterPodTemplate" in spec:
            yield Pod(f"{name} submitter", spec["submitterPodTemplate"])
        for _, cluster in ray_clusters(item):
            yield Pod(f"{name} head", cluster["headGroupSpec"]["template"])
            for group in cluster.get("workerGroupSpecs", []):
                yield Pod(f"{name} {group['groupName']}", group["template"])
