"""What tests look at when they look at deploy/: each overlay, built once a session by kustomize."""

from __future__ import annotations

from functools import cache

from scripts.manifests.overlays import Object, Pod, build, pods


@cache
def built(overlay: str) -> tuple[Object, ...]:
    """The objects of an overlay. They are shared: copy before changing."""
    return tuple(build(overlay))


def pods_of(overlay: str) -> list[Pod]:
    """Every pod of an overlay."""
    return list(pods(list(built(overlay))))


def ray_pods(overlay: str) -> list[Pod]:
    """Pods that run Ray, or speak to it."""
    return [pod for pod in pods_of(overlay) if "lodestone/ray" in pod.labels]


def one(overlay: str, kind: str, name: str = "") -> Object:
    """The object of this kind (and name) in an overlay."""
    found = [each for each in built(overlay) if each["kind"] == kind and name in {"", each["metadata"]["name"]}]
    assert len(found) == 1, f"{overlay} has {len(found)} of {kind}/{name}"
    return found[0]


def matches(selector: dict[str, object], labels: dict[str, str]) -> bool:
    """Whether a Kubernetes label selector chooses these labels; an empty one chooses all."""
    wanted: dict[str, str] = selector.get("matchLabels", {})  # type: ignore[assignment]
    if any(labels.get(name) != value for name, value in wanted.items()):
        return False
    tests = {
        "In": lambda value, values: value in values,
        "NotIn": lambda value, values: value not in values,
        "Exists": lambda value, _: value is not None,
        "DoesNotExist": lambda value, _: value is None,
    }
    expressions: list[dict[str, object]] = selector.get("matchExpressions", [])  # type: ignore[assignment]
    return all(tests[str(one["operator"])](labels.get(str(one["key"])), one.get("values", [])) for one in expressions)
