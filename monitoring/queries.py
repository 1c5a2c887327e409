"""How is a metric of ours asked for? PromQL over all replicas of the chosen namespaces."""

from __future__ import annotations

from typing import Final

N: Final = 'namespace=~"$namespace"'
"""The chosen namespaces."""

WINDOW: Final = "$__rate_interval"
"""Grafana's own: long enough to hold some scrapes."""


def rate(metric: str, by: str = "", where: str = "") -> str:
    """Growth a second of a counter, over all replicas."""
    labels = ", ".join(one for one in (N, where) if one)
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} (rate({metric}{{{labels}}}[{WINDOW}]))"


def quantile(share: float, histogram: str, by: str = "", where: str = "") -> str:
    """Below which a `share` of the values lies, estimated from the buckets of all replicas."""
    return f"histogram_quantile({share:g}, {rate(f'{histogram}_bucket', ', '.join(one for one in (by, 'le') if one), where)})"


def shared(gauge: str, by: str = "", where: str = "") -> str:
    """A fact of the home, which every replica reports alike."""
    labels = ", ".join(one for one in (N, where) if one)
    return f"max{f' by ({by})' if by else ''} ({gauge}{{{labels}}})"


def total_of(gauge: str, by: str = "", where: str = "") -> str:
    """The sum of a gauge over all replicas."""
    labels = ", ".join(one for one in (N, where) if one)
    return f"sum{f' by ({by})' if by else ''} ({gauge}{{{labels}}})"
