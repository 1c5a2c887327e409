"""Sizes of an overlay: Qdrant's, made by the planner of the number of pictures, and the connections to PostgreSQL.

`installation.env` of an overlay says how many pictures (`PICTURES`) and queries a second (`QUERIES_PER_SECOND`) it is for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from scripts.manifests.kuberay import quantity
from scripts.manifests.overlays import K8S, Object, name_of, of_kind
from scripts.manifests.serving import settings_of

if TYPE_CHECKING:
    from lodestone.capacity.formulas import Plan

_HEADER: Final = (
    "# Made of lodestone.toml and installation.env by the planner: do not edit; `python -m scripts.check_manifests --write`.\n"
)
_GI: Final = 2**30
_LEAST_MEMORY_GI, _DISK_STEP_GI = 4, 10
_OTHER_REPLICAS: Final = 2  # encoders, generators and taggers open the catalog to learn which home it is
_COMMANDS: Final = 3  # an index run's driver, the admin pod, a backup
_RESERVED: Final = 3  # superuser_reserved_connections
_DEFAULT_CONNECTIONS: Final = 100  # PostgreSQL's own


def path_of(overlay: str) -> Path:
    """Return the path of the patch with Qdrant's sizes; overlays without `PICTURES` have none."""
    return K8S / "overlays" / overlay / "qdrant.yaml"


def installation(overlay: str) -> dict[str, str]:
    """Return the values of an overlay's installation.env; none where there is no such file."""
    path = K8S / "overlays" / overlay / "installation.env"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return dict(line.split("=", 1) for line in lines if line.strip() and not line.startswith("#"))


def planned(overlay: str) -> Plan | None:
    """Return the planner's figures for an overlay; None where it does not say for how many pictures it is."""
    from lodestone.capacity.formulas import Cluster, plan
    from lodestone.capacity.rates import DEFAULT_RATES
    from lodestone.capacity.workload import of_profile, parse_count
    from lodestone.config.compositions import all_compositions
    from lodestone.config.own_profiles import choose_profile

    values = installation(overlay)
    if "PICTURES" not in values:
        return None
    settings = settings_of(overlay)
    profile, store = choose_profile(settings.profile, settings.profiles), settings.store
    spec = store.specify("any", dim=1, fields=(), profile=profile)
    workload = of_profile(
        profile,
        parse_count(values["PICTURES"]),
        compositions=all_compositions(settings.compositions, profile).values(),
        hnsw=spec.hnsw,
        quantization=spec.quantization,
        replication=store.placement.replication or 1,
        queries_per_second=float(values.get("QUERIES_PER_SECOND", "0")),
    )
    return plan(workload, Cluster(model_cores=1, qdrant_nodes=len(store.urls)), DEFAULT_RATES)


def wanted(overlay: str) -> str | None:
    """Return the patch with Qdrant's sizes; None where the overlay says nothing to make it of."""
    figures = planned(overlay)
    if figures is None:
        return None
    nodes = figures.qdrant_nodes
    memory = max(_LEAST_MEMORY_GI, math.ceil(figures.store.ram_to_buy_gb * 1e9 / _GI / nodes))
    disk = math.ceil(figures.store.disk_to_buy_gb * 1e9 / _GI / nodes / _DISK_STEP_GI) * _DISK_STEP_GI
    cpus = max(1, math.ceil(figures.search_cores / nodes))
    resources = {
        "requests": {"cpu": str(cpus), "memory": f"{memory}Gi"},
        "limits": {"cpu": str(max(4, 2 * cpus)), "memory": f"{memory}Gi"},  # building graphs takes what is free
    }
    patch: list[dict[str, Any]] = [
        {"op": "replace", "path": "/spec/replicas", "value": nodes},
        {"op": "replace", "path": "/spec/template/spec/containers/0/resources", "value": resources},
        {"op": "replace", "path": "/spec/volumeClaimTemplates/0/spec/resources/requests/storage", "value": f"{disk}Gi"},
    ]
    return _HEADER + yaml.safe_dump(patch, sort_keys=False, width=120)


def faults(overlay: str, objects: list[Object]) -> list[str]:
    """Return what is too small in a built overlay."""
    return [f"{overlay}: {fault}" for rule in (_qdrant, _connections) for fault in rule(overlay, objects)]


def _qdrant(overlay: str, objects: list[Object]) -> Iterator[str]:
    figures, text = planned(overlay), wanted(overlay)
    if figures is None:
        return
    if not path_of(overlay).exists() or path_of(overlay).read_text(encoding="utf-8") != text:
        yield "qdrant.yaml is not what the planner says: python -m scripts.check_manifests --write"
    pictures = installation(overlay)["PICTURES"]
    for item in of_kind(objects, "StatefulSet"):
        if item["metadata"]["name"] != "lodestone-qdrant":
            continue
        spec = item["spec"]
        memory = quantity(spec["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"]) * spec["replicas"]
        disk = quantity(spec["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"]) * spec["replicas"]
        for what, given, needed in (
            ("memory", memory, figures.store.ram_to_buy_gb * 1e9),
            ("disk", disk, figures.store.disk_to_buy_gb * 1e9),
        ):
            if given < needed:
                yield f"{name_of(item)}: {pictures} pictures need {needed / 1e9:.1f} GB of {what}, there are {given / 1e9:.1f}"
    shards = settings_of(overlay).store.placement.shards or 1
    if shards < figures.shards:
        yield f"store.shards is {shards}, the planner says {figures.shards} for {pictures} pictures"


def _connections(overlay: str, objects: list[Object]) -> Iterator[str]:
    needed, offered = connections(overlay), _offered(objects)
    if needed > offered:
        yield (
            f"all processes at their most take {needed} connections, PostgreSQL has {offered}: raise its max_connections, "
            "or lower catalog_connections or the replicas"
        )


def connections(overlay: str) -> int:
    """Return the most connections to PostgreSQL: of all replicas, twice during an update, of commands, and reserved ones."""
    from lodestone_serve.graph.stages import APP, FUSION, INGRESS, deployment_options

    settings, total = settings_of(overlay), 0
    for name, options in deployment_options(settings).items():
        replicas = options.get("num_replicas") or options["autoscaling_config"]["max_replicas"]
        if name == FUSION:
            continue  # it opens no catalog
        each = settings.catalog_connections if name in {APP, INGRESS} else _OTHER_REPLICAS
        total += 2 * replicas * each  # an update starts new replicas, or a whole new cluster, beside the old ones
    return total + _COMMANDS * int(settings.catalog_connections) + _RESERVED


def _offered(objects: list[Object]) -> int:
    """Return the connections that the overlay's PostgreSQL takes."""
    for item in of_kind(objects, "Cluster"):
        return int(item["spec"].get("postgresql", {}).get("parameters", {}).get("max_connections", _DEFAULT_CONNECTIONS))
    for item in of_kind(objects, "StatefulSet"):
        if item["metadata"]["name"] == "lodestone-catalog":
            given = re.search(
                r"max_connections=(\d+)", " ".join(item["spec"]["template"]["spec"]["containers"][0].get("args", []))
            )
            return int(given.group(1)) if given else _DEFAULT_CONNECTIONS
    return _DEFAULT_CONNECTIONS
