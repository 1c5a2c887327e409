"""Number of actors that a cluster has room for, and the bounds that the settings give for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lodestone.config.cluster import ClusterSettings

_ROUNDING: Final = 1e-9  # so that 0.3 CPUs have room for three actors of 0.1, despite floating point


@dataclass(frozen=True, slots=True)
class Share:
    """Resources that an actor asks for.

    Attributes:
        cpus: CPUs.
        gpus: GPUs: whole ones, or a share of one.
    """

    cpus: float
    gpus: float = 0.0

    def __str__(self) -> str:
        return f"{self.cpus:g} CPUs and {self.gpus:g} GPUs"

    def options(self) -> dict[str, float]:
        """Return the options of a Ray actor with these resources."""
        return {"num_cpus": self.cpus, **({"num_gpus": self.gpus} if self.gpus else {})}


@dataclass(frozen=True, slots=True)
class Room:
    """Resources of one node."""

    cpus: float
    gpus: float = 0.0

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> Room:
        """Return the room of a node, as `ray.nodes` describes it."""
        resources = node["Resources"]
        return cls(resources.get("CPU", 0.0), resources.get("GPU", 0.0))

    def actors(self, share: Share) -> int:
        """Return how many actors fit; a share of a GPU must lie on one GPU."""
        fitting = int(self.cpus / share.cpus + _ROUNDING)
        if share.gpus:
            each = int(1 / share.gpus + _ROUNDING) if share.gpus < 1 else 1 / share.gpus
            fitting = min(fitting, int(int(self.gpus) * each + _ROUNDING))
        return fitting


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of the number of actors.

    Attributes:
        least: Actors that are asked for even where they do not fit, so that an autoscaler adds nodes for them.
        most: Most actors; 0 for as many as fit.
    """

    least: int = 1
    most: int = 0

    @classmethod
    def of(cls, cluster: ClusterSettings) -> Bounds:
        """Return the bounds of a cluster's settings: a number is both of them, 0 is as many as fit."""
        if isinstance(cluster.actors, int):
            return cls(max(cluster.actors, 1), cluster.actors)
        return cls(*cluster.actors)

    def started(self, room: int) -> int:
        """Return how many actors to start with where `room` fit."""
        return max(self.least, min(room, self.most or room))


def room_of(nodes: Iterable[Room], share: Share) -> int:
    """Return how many actors fit the nodes."""
    return sum(node.actors(share) for node in nodes)
