"""How do metrics leave a replica that nobody can scrape? Through Ray's own, under the same names with Ray's prefix `ray_`.

Ray's agent on each node exports what its processes record; the Pod monitors of deploy/k8s take the prefix away again. Ray keeps
the last value of a gauge, and adds up nothing over replicas: that is done in the rules.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from lodestone_serve.telemetry.instruments import Mirror
from lodestone_serve.telemetry.metric_table import Definition

DEPLOYMENT: Final = "deployment"


class RayMirror:
    """Meets `instruments.Mirror`.

    Args:
        deployment: Label of everything that this process records.
    """

    def __init__(self, deployment: str) -> None:
        self._deployment = {DEPLOYMENT: deployment}
        self._made: dict[str, Any] = {}

    def add(self, definition: Definition, labels: Mapping[str, str], amount: float) -> None:
        """A counter grew."""
        self._of(definition).inc(amount, {**self._deployment, **labels})

    def put(self, definition: Definition, labels: Mapping[str, str], value: float) -> None:
        """A gauge changed."""
        self._of(definition).set(value, {**self._deployment, **labels})

    def observe(self, definition: Definition, labels: Mapping[str, str], value: float) -> None:
        """A histogram saw a value."""
        self._of(definition).observe(value, {**self._deployment, **labels})

    def _of(self, definition: Definition) -> Any:  # noqa: ANN401 - Ray's metrics have no common type that can be used
        found = self._made.get(definition.name)
        if found is None:  # two threads may make it twice: Ray takes both for the same
            found = self._made[definition.name] = _make(definition)
        return found


def mirror_of_replica() -> Mirror | None:
    """Ray's metrics where this process is a replica of a Serve deployment; None elsewhere."""
    deployment = deployment_of_replica()
    return None if deployment is None else RayMirror(deployment)


def deployment_of_replica() -> str | None:
    """The Serve deployment that this process is a replica of; None elsewhere."""
    if "ray" not in sys.modules:
        return None
    from ray import serve
    from ray.serve.exceptions import RayServeException

    try:
        name: str = serve.get_replica_context().deployment
    except RayServeException:
        return None
    return name


def _make(definition: Definition) -> Any:  # noqa: ANN401 - as above
    from ray.util import metrics

    keys = (DEPLOYMENT, *definition.labels)
    if definition.kind == "counter":
        return metrics.Counter(definition.name, definition.help, tag_keys=keys)
    if definition.kind == "gauge":
        return metrics.Gauge(definition.name, definition.help, tag_keys=keys)
    return metrics.Histogram(definition.name, definition.help, boundaries=list(definition.buckets), tag_keys=keys)
