"""Autoscaling policy of the ingress: it scales by busy queries, and streams that only wait do not count.

Serve counts requests, and a stream is one from its first to its last byte, even while only its reader, a pause or a heartbeat
keeps it open. Replicas report the queries that are worked on or wait for a slot (`record_autoscaling_stats`), and the ingress
scales by those. This module is sent to Serve's controller by value: it imports only Ray's types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ray.serve.config import AutoscalingContext

POLICY: Final = "lodestone_serve.graph.policy:by_busy_queries"
BUSY: Final = "busy_queries"
"""Name of what a replica of the ingress reports: queries worked on, and queries that wait for a slot."""


def by_busy_queries(ctx: AutoscalingContext) -> tuple[float, dict[str, Any]]:
    """Return the wanted number of replicas: busy queries of all replicas / `target_ongoing_requests`.

    It is an `AutoscalingConfig.policy`. Serve keeps the result within the least and the most replicas and applies the delays. A
    replica that has not reported yet counts as 0; while none has, the number stays as it is.
    """
    reported = (ctx.aggregated_metrics or {}).get(BUSY) or {}
    if not reported or ctx.config is None:
        return ctx.target_num_replicas, {}
    return sum(reported.values()) / ctx.config.target_ongoing_requests, {}
