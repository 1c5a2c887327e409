"""What tests look at when they look at deploy/: each overlay, built once a session by kustomize."""

from __future__ import annotations

from functools import cache

from scripts.manifests.operation import chooses as matches
from scripts.manifests.overlays import Object, Pod, build, pods

__all__ = ["built", "matches", "one", "pods_of", "ray_pods"]


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
