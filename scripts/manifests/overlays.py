"""What does an overlay come to? kustomize builds it; its objects, and every pod that they lead to."""

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
OVERLAYS = ("dev", "gpu", "ha")
_BUILD_SECONDS = 60

Object = dict[str, Any]


@dataclass(frozen=True)
class Pod:
    """A pod that an object leads to: `where` names both, `template` is its metadata and spec."""

    where: str
    template: dict[str, Any]

    @property
    def spec(self) -> dict[str, Any]:
        """Its spec."""
        spec: dict[str, Any] = self.template["spec"]
        return spec

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        labels: dict[str, str] = self.template.get("metadata", {}).get("labels", {})
        return labels

    @property
    def containers(self) -> list[dict[str, Any]]:
        """Containers and init containers."""
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]


def tool(name: str) -> str:
    """The path of a command: of this environment, else of the machine.

    Raises:
        FileNotFoundError: there is none.
    """
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"no {name!r} here: pip install -e '.[dev]' brings it")
    return found


def build(overlay: str) -> list[Object]:
    """The objects of an overlay.

    Raises:
        ValueError: kustomize refuses it; says why.
    """
    command = [tool("kubectl"), "kustomize", str(K8S / "overlays" / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)
    if done.returncode != 0:
        raise ValueError(f"kustomize cannot build the overlay {overlay!r}: {done.stderr.strip()}")
    return [found for found in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if found]


def component_objects() -> list[Object]:
    """The objects of all components, also of those that no overlay takes."""
    files = [file for file in sorted((K8S / "components").glob("*/*.yaml")) if file.name != "kustomization.yaml"]
    return [
        found for file in files for found in yaml.load_all(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader) if found
    ]


def name_of(found: Object) -> str:
    """`Kind/name`."""
    return f"{found.get('kind')}/{found.get('metadata', {}).get('name')}"


def of_kind(objects: list[Object], *kinds: str) -> list[Object]:
    """The objects of these kinds."""
    return [found for found in objects if found["kind"] in kinds]


def ray_clusters(found: Object) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where, spec of a RayCluster) in a RayService, a RayJob or a RayCluster."""
    field = {"RayService": "rayClusterConfig", "RayJob": "rayClusterSpec"}.get(found["kind"])
    if field is not None:
        yield f"{name_of(found)} {field}", found["spec"][field]
    elif found["kind"] == "RayCluster":
        yield name_of(found), found["spec"]


def pods(objects: list[Object]) -> Iterator[Pod]:
    """Every pod that an object's own controller or KubeRay makes, without what those add."""
    for found in objects:
        name, spec = name_of(found), found.get("spec", {})
        if found["kind"] == "Pod":
            yield Pod(name, found)
        elif found["kind"] == "CronJob":
            yield Pod(name, spec["jobTemplate"]["spec"]["template"])
        elif found["kind"] in {"Deployment", "StatefulSet", "DaemonSet", "Job"}:
            yield Pod(name, spec["template"])
        if "submitterPodTemplate" in spec:
            yield Pod(f"{name} submitter", spec["submitterPodTemplate"])
        for _, cluster in ray_clusters(found):
            yield Pod(f"{name} head", cluster["headGroupSpec"]["template"])
            for group in cluster.get("workerGroupSpecs", []):
                yield Pod(f"{name} {group['groupName']}", group["template"])
