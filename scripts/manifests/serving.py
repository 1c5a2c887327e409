"""Serve config of the overlays: made of lodestone.toml, checked against Ray's schema and the room in the Ray cluster."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from scripts.manifests.kuberay import quantity
from scripts.manifests.overlays import K8S, Object, of_kind

_PREFIX = "LODESTONE_"
_HEADER = "# Made of lodestone.toml: do not edit, run `python -m scripts.check_manifests --write`.\n"


def settings_of(overlay: str) -> Any:  # noqa: ANN401 - lodestone's Settings, imported late
    """Return the settings of an overlay, independent of this machine's environment and home."""
    from lodestone.config.settings import Settings

    written = tomllib.loads((K8S / "overlays" / overlay / "lodestone.toml").read_text(encoding="utf-8"))
    with _without_own_settings():
        return Settings(**written)


def wanted(overlay: str) -> str:
    """Return the serve.yaml that the settings lead to."""
    from lodestone_serve.graph.config import as_yaml, serve_config

    return _HEADER + as_yaml(serve_config(settings_of(overlay)))


def path_of(overlay: str) -> Path:
    """Return the path of an overlay's serve.yaml."""
    return K8S / "overlays" / overlay / "serve.yaml"


def faults(overlay: str, objects: list[Object]) -> list[str]:
    """Return what is wrong with the Serve config of a built overlay."""
    from pydantic import ValidationError
    from ray.serve.schema import ServeDeploySchema

    lines = []
    if path_of(overlay).read_text(encoding="utf-8") != wanted(overlay):
        lines.append(f"{overlay}: serve.yaml is not what lodestone.toml says: python -m scripts.check_manifests --write")
    for service in of_kind(objects, "RayService"):
        config = yaml.safe_load(service["spec"]["serveConfigV2"])
        if config != yaml.safe_load(path_of(overlay).read_text(encoding="utf-8")):
            lines.append(f"{overlay}: the RayService does not hold serve.yaml")
            continue
        try:
            ServeDeploySchema.model_validate(config)
        except ValidationError as error:
            lines += [f"{overlay}: {'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors()]
        lines += [f"{overlay}: {fault}" for fault in _room(config, service["spec"]["rayClusterConfig"])]
    return lines


def _room(config: dict[str, Any], cluster: dict[str, Any]) -> Iterator[str]:
    """Return deployments with a replica that fits into no pod, or with more replicas than the pods hold, updates included."""
    groups = [(group["groupName"], _offered(group), int(group["maxReplicas"])) for group in cluster["workerGroupSpecs"]]
    most: dict[str, float] = {}
    for application in config["applications"]:
        for deployment in application["deployments"]:
            needed = _needed(deployment.get("ray_actor_options", {}))
            if not any(_fits(needed, offered) for _, offered, _ in groups):
                yield f"no pod has room for a replica of {deployment['name']}: it needs {needed}"
            scaling = deployment.get("autoscaling_config", {})
            replicas = scaling.get("max_replicas", deployment.get("num_replicas", 1))
            if (per_node := deployment.get("max_replicas_per_node")) is not None:
                nodes = sum(pods for _, offered, pods in groups if _fits(needed, offered))
                twice = 2 if deployment.get("max_surge_percent") else 1  # an update starts new replicas beside the old ones
                if replicas * twice > per_node * nodes:
                    yield (
                        f"{deployment['name']} has up to {replicas} replicas, {replicas * twice} during an update, and "
                        f"{nodes} nodes take {per_node} each"
                    )
            for resource, amount in needed.items():
                most[resource] = most.get(resource, 0.0) + amount * replicas
    for resource, amount in most.items():
        available = sum(offered.get(resource, 0.0) * pods for _, offered, pods in groups)
        if amount > available:
            yield f"all replicas at their most need {amount:g} {resource}, the Ray cluster at its largest has {available:g}"


def _fits(needed: dict[str, float], offered: dict[str, float]) -> bool:
    return all(amount <= offered.get(resource, 0.0) for resource, amount in needed.items())


def _needed(options: dict[str, Any]) -> dict[str, float]:
    amounts = {"CPU": options.get("num_cpus", 1.0), "GPU": options.get("num_gpus", 0.0), **options.get("resources", {})}
    return {resource: float(amount) for resource, amount in amounts.items() if amount}


def _offered(group: dict[str, Any]) -> dict[str, float]:
    """Return the resources that a node of the group reports to Ray, as KubeRay starts it."""
    params, limits = group.get("rayStartParams", {}), group["template"]["spec"]["containers"][0]["resources"]["limits"]
    custom = json.loads(params["resources"].strip("'").strip('"').replace('\\"', '"')) if "resources" in params else {}
    return {
        "CPU": float(params.get("num-cpus", quantity(limits["cpu"]))),
        "GPU": float(params.get("num-gpus", limits.get("nvidia.com/gpu", 0))),
        **custom,
    }


@contextmanager
def _without_own_settings() -> Iterator[None]:
    own = {name: os.environ.pop(name) for name in list(os.environ) if name.upper().startswith(_PREFIX)}
    os.environ["LODESTONE_HOME"] = os.devnull  # no home here has a say
    try:
        yield
    finally:
        del os.environ["LODESTONE_HOME"]
        os.environ.update(own)
