"""Schemas of the objects in deploy/. Unknown fields count as wrong, because a cluster would drop them silently.

Kubernetes' own kinds are checked by kubernetes-validate, strictly, and KubeRay's by its CRDs, where ../shared/crds exists.
Gateway API, the Prometheus operator, External Secrets, Kueue and CloudNativePG: deploy/k8s/schemas, written by hand after
their documentation, with the fields that are used here and no others; they catch a misspelt field, not a change of those
projects.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from scripts.manifests.overlays import K8S, ROOT, Object, name_of

VERSIONS = ("1.33", "1.37")
"""The oldest and the newest version of Kubernetes that the manifests are for."""
CRDS = ROOT.parent / "shared" / "crds"
_BY_HAND = K8S / "schemas"


def has_crds() -> bool:
    """Return whether KubeRay's CRDs are available here."""
    return (CRDS / "ray.io_rayservices.yaml").is_file()


def group_of(item: Object) -> str:
    """Return the API group of an object: `ray.io` of `ray.io/v1`; empty for the core group."""
    group, slash, _ = str(item["apiVersion"]).partition("/")
    return group if slash else ""


def faults(item: Object) -> list[str]:
    """Return what is wrong with the shape of an object."""
    group = group_of(item)
    if group == "ray.io":
        return _kuberay(item) if has_crds() else []
    by_hand = _BY_HAND / f"{group}_{item['kind'].lower()}.json"
    if by_hand.is_file():
        return _violations(_written(by_hand), item)
    if "." in group and not group.endswith("k8s.io") and group != "policy":
        return [f"{name_of(item)}: no schema of {item['apiVersion']} {item['kind']}"]
    text = json.dumps(item, sort_keys=True)
    return [fault for version in VERSIONS for fault in _kubernetes(text, version)]


@cache  # most objects are the same in all overlays
def _kubernetes(text: str, version: str) -> tuple[str, ...]:
    import kubernetes_validate  # type: ignore[import-untyped]

    item: Object = json.loads(text)
    try:
        kubernetes_validate.validate(item, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        where = ".".join(str(part) for part in error.path)
        return (f"{name_of(item)} ({version}): {where}: {error.message:.300}",)
    except kubernetes_validate.SchemaNotFoundError as error:
        return (f"{name_of(item)} ({version}): {error}",)
    return ()


def _kuberay(item: Object) -> list[str]:
    path = CRDS / f"ray.io_{item['kind'].lower()}s.yaml"
    if not path.is_file():
        return [f"{name_of(item)}: no schema at {path.name}"]
    return _violations(_custom_resource(path, item["apiVersion"].rpartition("/")[2]), item)


def _violations(schema: Draft202012Validator, item: Object) -> list[str]:
    errors = sorted(schema.iter_errors(item), key=lambda error: list(map(str, error.absolute_path)))
    return [f"{name_of(item)}: {'.'.join(map(str, error.absolute_path))}: {error.message:.300}" for error in errors]


@cache
def _custom_resource(path: Path, version: str) -> Draft202012Validator:
    definition = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    schema = next(served["schema"]["openAPIV3Schema"] for served in definition["spec"]["versions"] if served["name"] == version)
    return Draft202012Validator(_closed(schema, top=True))


@cache
def _written(path: Path) -> Draft202012Validator:
    return Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))


def _closed(schema: dict[str, Any], *, top: bool = False) -> dict[str, Any]:
    """Return the schema such that it refuses fields that it does not name. Metadata at the top is Kubernetes' own."""
    closed = dict(schema)
    if "properties" in schema:
        closed["properties"] = {name: _closed(inner) for name, inner in schema["properties"].items()}
        if "additionalProperties" not in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            closed["additionalProperties"] = False
        if top:
            closed["properties"]["metadata"] = {"type": "object"}
    if isinstance(schema.get("items"), dict):
        closed["items"] = _closed(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        closed["additionalProperties"] = _closed(schema["additionalProperties"])
    return closed
