"""Has every object the shape that its kind has? Unknown fields count as wrong: a cluster would drop them without a word.

Kubernetes' own kinds: kubernetes-validate, strictly. KubeRay's: its CRDs, where ../shared/crds is there. Gateway API, the
Prometheus operator, External Secrets, Kueue and CloudNativePG: deploy/k8s/schemas, written by hand after their documentation,
with the fields that are used here and no others; they catch a misspelt field, not a change of those projects.
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
"""Of Kubernetes: the oldest and the newest that the manifests are for."""
CRDS = ROOT.parent / "shared" / "crds"
_BY_HAND = K8S / "schemas"


def has_crds() -> bool:
    """Whether KubeRay's CRDs can be had here."""
    return (CRDS / "ray.io_rayservices.yaml").is_file()


def group_of(found: Object) -> str:
    """`ray.io` of `ray.io/v1`; empty for the core group."""
    group, slash, _ = str(found["apiVersion"]).partition("/")
    return group if slash else ""


def faults(found: Object) -> list[str]:
    """What is wrong with the shape of an object."""
    group = group_of(found)
    if group == "ray.io":
        return _kuberay(found) if has_crds() else []
    by_hand = _BY_HAND / f"{group}_{found['kind'].lower()}.json"
    if by_hand.is_file():
        return _violations(_written(by_hand), found)
    if "." in group and not group.endswith("k8s.io") and group != "policy":
        return [f"{name_of(found)}: no schema of {found['apiVersion']} {found['kind']}"]
    text = json.dumps(found, sort_keys=True)
    return [fault for version in VERSIONS for fault in _kubernetes(text, version)]


@cache  # most objects are the same in all overlays
def _kubernetes(text: str, version: str) -> tuple[str, ...]:
    import kubernetes_validate  # type: ignore[import-untyped]

    found: Object = json.loads(text)
    try:
        kubernetes_validate.validate(found, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        where = ".".join(str(part) for part in error.path)
        return (f"{name_of(found)} ({version}): {where}: {error.message:.300}",)
    except kubernetes_validate.SchemaNotFoundError as error:
        return (f"{name_of(found)} ({version}): {error}",)
    return ()


def _kuberay(found: Object) -> list[str]:
    path = CRDS / f"ray.io_{found['kind'].lower()}s.yaml"
    if not path.is_file():
        return [f"{name_of(found)}: no schema at {path.name}"]
    return _violations(_custom_resource(path, found["apiVersion"].rpartition("/")[2]), found)


def _violations(schema: Draft202012Validator, found: Object) -> list[str]:
    errors = sorted(schema.iter_errors(found), key=lambda error: list(map(str, error.absolute_path)))
    return [f"{name_of(found)}: {'.'.join(map(str, error.absolute_path))}: {error.message:.300}" for error in errors]


@cache
def _custom_resource(path: Path, version: str) -> Draft202012Validator:
    definition = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    schema = next(one["schema"]["openAPIV3Schema"] for one in definition["spec"]["versions"] if one["name"] == version)
    return Draft202012Validator(_closed(schema, top=True))


@cache
def _written(path: Path) -> Draft202012Validator:
    return Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))


def _closed(schema: dict[str, Any], *, top: bool = False) -> dict[str, Any]:
    """The schema, with fields refused that it does not name. Metadata at the top is Kubernetes' own."""
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
