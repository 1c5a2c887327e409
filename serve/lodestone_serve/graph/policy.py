"""Autoscaling policies: the ingress scales by busy queries, and `Encoders` by the occupancy of its batches.

Serve counts requests. For the ingress, a stream is one from its first to its last byte, even while only its reader, a pause or
a heartbeat keeps it open. For `Encoders`, a call is one text or fifty pictures, and calls that share a pass cost little more
than one of them. So replicas report what says more (`record_autoscaling_stats`): queries that are worked on or wait for a slot,
and how full the passes are (`inference.occupancy`). This module is sent to Serve's controller by value: it imports only Ray's
types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ray.serve.config import AutoscalingContext

POLICY: Final = "lodestone_serve.graph.policy:by_busy_queries"
BUSY: Final = "busy_queries"
"""Name of what a replica of the ingress reports: queries worked on, and queries that wait for a slot."""
OCCUPANCY: Final = "occupancy"
"""Name of what a replica of `Encoders` reports: items of passes, waiting ones too, as a share of what its passes can hold."""
ENCODERS_POLICY: Final = "lodestone_serve.graph.policy:ByOccupancy"


def by_busy_queries(ctx: AutoscalingContext) -> tuple[float, dict[str, Any]]:
    """Return the wanted number of replicas: busy queries of all replicas / `target_ongoing_requests`.

    It is an `AutoscalingConfig.policy`. Serve keeps the result within the least and the most replicas and applies the delays. A
    replica that has not reported yet counts as 0; while none has, the number stays as it is.
    """
    reported = (ctx.aggregated_metrics or {}).get(BUSY) or {}
    if not reported or ctx.config is None:
        return ctx.target_num_replicas, {}
    return sum(reported.values()) / ctx.config.target_ongoing_requests, {}


class ByOccupancy:
    """`AutoscalingConfig.policy` of `Encoders`: it wants the occupancy of all replicas / `target` replicas.

    A replica works on `max_ongoing` calls at once at most. Further calls wait with their callers, where its passes do not see
    them, so a replica with that many calls counts as full, however small they are.

    Args:
        target: Occupancy that a replica should have, > 0.
        max_ongoing: Calls that a replica works on at once.
    """

    def __init__(self, *, target: float, max_ongoing: float) -> None:
        self._target = target
        self._max_ongoing = max_ongoing

    def __call__(self, ctx: AutoscalingContext) -> tuple[float, dict[str, Any]]:
        """Return the wanted number of replicas; Serve keeps it within the bounds and applies the delays.

        A replica that has not reported yet counts as empty; while none has, the number stays as it is.
        """
        reported = (ctx.aggregated_metrics or {}).get(OCCUPANCY) or {}
        if not reported:
            return ctx.target_num_replicas, {}
        full = max(sum(reported.values()), ctx.total_num_requests / self._max_ongoing)
        return full / self._target, {}
