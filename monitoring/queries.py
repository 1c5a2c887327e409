"""PromQL queries of our metrics, over all replicas of the chosen namespaces."""

from __future__ import annotations

from typing import Final, Protocol

N: Final = 'namespace=~"$namespace"'
"""The chosen namespaces."""

WINDOW: Final = "$__rate_interval"
"""Grafana's own: long enough to hold some scrapes."""


Query = tuple[str, str]
"""PromQL, and the legend of its series."""


class Ask(Protocol):
    """A form in which a metric is queried: `rate`, `p95`, `shared` or `total_of`."""

    def __call__(self, metric: str, by: str = "", where: str = "", /) -> str:
        """Return PromQL with one series for each value of the labels `by`, over the series that meet `where`."""


def by(label: str, ask: Ask, metric: str, where: str = "") -> Query:
    """Return the query with one series for each value of a label, named after it."""
    return ask(metric, label, where), f"{{{{{label}}}}}"


def rate(metric: str, by: str = "", where: str = "") -> str:
    """Return the query for a counter's growth per second, over all replicas."""
    return _over_replicas("sum", "rate({}[" + WINDOW + "])", metric, by, where)


def quantile(share: float, histogram: str, by: str = "", where: str = "") -> str:
    """Return the query for a quantile, estimated from the buckets of all replicas; `share` is its level."""
    return f"histogram_quantile({share:g}, {rate(f'{histogram}_bucket', ', '.join(one for one in (by, 'le') if one), where)})"


def p95(histogram: str, by: str = "", where: str = "") -> str:
    """Return the query for the 95th percentile."""
    return quantile(0.95, histogram, by, where)


def mean(histogram: str) -> str:
    """Return the query for the mean of the last minutes."""
    return f"{rate(f'{histogram}_sum')} / {rate(f'{histogram}_count')}"


def shared(gauge: str, by: str = "", where: str = "") -> str:
    """Return the query for a fact of the home, which every replica reports alike."""
    return _over_replicas("max", "{}", gauge, by, where)


def total_of(gauge: str, by: str = "", where: str = "") -> str:
    """Return the query for the sum of a gauge over all replicas."""
    return _over_replicas("sum", "{}", gauge, by, where)


def _over_replicas(together: str, of: str, metric: str, by: str, where: str) -> str:
    labels = ", ".join(one for one in (N, where) if one)
    grouped = f" by ({by})" if by else ""
    return f"{together}{grouped} ({of.format(f'{metric}{{{labels}}}')})"
