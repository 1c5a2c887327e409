"""How is a metric of ours asked for? PromQL over all replicas of the chosen namespaces."""

from __future__ import annotations

from typing import Final, Protocol

N: Final = 'namespace=~"$namespace"'
"""The chosen namespaces."""

WINDOW: Final = "$__rate_interval"
"""Grafana's own: long enough to hold some scrapes."""


Query = tuple[str, str]
"""PromQL, and the legend of its series."""


class Ask(Protocol):
    """How a metric is asked for: `rate`, `p95`, `shared` or `total_of`."""

    def __call__(self, metric: str, by: str = "", where: str = "", /) -> str:
        """PromQL, with a series for each value of the labels `by`, over those that meet `where`."""


def by(label: str, ask: Ask, metric: str, where: str = "") -> Query:
    """A series for each value of a label, named after it."""
    return ask(metric, label, where), f"{{{{{label}}}}}"


def rate(metric: str, by: str = "", where: str = "") -> str:
    """Growth a second of a counter, over all replicas."""
    return _over_replicas("sum", "rate({}[" + WINDOW + "])", metric, by, where)


def quantile(share: float, histogram: str, by: str = "", where: str = "") -> str:
    """Below which a `share` of the values lies, estimated from the buckets of all replicas."""
    return f"histogram_quantile({share:g}, {rate(f'{histogram}_bucket', ', '.join(one for one in (by, 'le') if one), where)})"


def p95(histogram: str, by: str = "", where: str = "") -> str:
    """Below which 95 % of the values lie."""
    return quantile(0.95, histogram, by, where)


def mean(histogram: str) -> str:
    """Of the values of the last moments."""
    return f"{rate(f'{histogram}_sum')} / {rate(f'{histogram}_count')}"


def shared(gauge: str, by: str = "", where: str = "") -> str:
    """A fact of the home, which every replica reports alike."""
    return _over_replicas("max", "{}", gauge, by, where)


def total_of(gauge: str, by: str = "", where: str = "") -> str:
    """The sum of a gauge over all replicas."""
    return _over_replicas("sum", "{}", gauge, by, where)


def _over_replicas(together: str, of: str, metric: str, by: str, where: str) -> str:
    labels = ", ".join(one for one in (N, where) if one)
    grouped = f" by ({by})" if by else ""
    return f"{together}{grouped} ({of.format(f'{metric}{{{labels}}}')})"
