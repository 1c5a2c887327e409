"""Export of metrics through Ray, for replicas that cannot be scraped; names get Ray's prefix `ray_`.

Ray's agent on each node exports what its processes record; the Pod monitors of deploy/k8s remove the prefix again. Ray keeps
the last value of a gauge, and does not sum over replicas: the monitoring rules do that.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from lodestone_serve.telemetry.instruments import Mirror
from lodestone_serve.telemetry.metric_table import Definition

DEPLOYMENT: Final = "deployment"


class RayMirror:
    """Implements `instruments.Mirror` with Ray's metrics.

    Args:
        deployment: Label of everything that this process records.
    """

    def __init__(self, deployment: str) -> None:
        self._deployment = {DEPLOYMENT: deployment}
        self._made: dict[tuple[str, ...], Any] = {}

    def add(self, definition: Definition, labels: Mapping[str, str], amount: float) -> None:
        """Add `amount` to Ray's counter."""
        self._of(definition, labels).inc(amount)

    def put(self, definition: Definition, labels: Mapping[str, str], value: float) -> None:
        """Set Ray's gauge to `value`."""
        self._of(definition, labels).set(value)

    def observe(self, definition: Definition, labels: Mapping[str, str], value: float) -> None:
        """Add one value to Ray's histogram."""
        self._of(definition, labels).observe(value)

    def _of(self, definition: Definition, labels: Mapping[str, str]) -> Any:  # noqa: ANN401 - Ray's metrics have no common type that can be used
        """Return Ray's metric for one series: with its labels given once, recording a value takes a third of the time."""
        key = (definition.name, *labels.values())
        metric = self._made.get(key)
        if metric is None:  # two threads may make it twice, which Ray treats as one metric
            metric = self._made[key] = _make(definition).set_default_tags({**self._deployment, **labels})
        return metric


def mirror_of_replica() -> Mirror | None:
    """Return a mirror if this process is a replica of a Serve deployment; None elsewhere."""
    deployment = deployment_of_replica()
    return None if deployment is None else RayMirror(deployment)


def deployment_of_replica() -> str | None:
    """Return the Serve deployment that this process is a replica of; None elsewhere."""
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
