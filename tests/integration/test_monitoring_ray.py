"""A replica's metrics leave it through a real Ray Serve under our names, and a trace crosses a handle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.collector import Collector, collector

from lodestone.config.serve import TelemetrySettings
from lodestone_serve.graph.calls import StageCall
from lodestone_serve.telemetry.instruments import Counter, Gauge, Histogram
from lodestone_serve.telemetry.metric_table import TABLE
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.telemetry.ray_metrics import mirror_of_replica
from lodestone_serve.telemetry.tracing import Tracing

pytestmark = pytest.mark.ray


class Counting:
    """A deployment that uses every instrument once, and says what trace it was called in."""

    def __init__(self, endpoint: str) -> None:
        self._metrics = Metrics(mirror_of_replica())
        self._tracing = Tracing(TelemetrySettings(otlp_endpoint=endpoint), service="there")

    def count(self, *, until: float | None = None, trace: dict[str, str] | None = None) -> list[str]:
        used = []
        for holder in (self._metrics, self._metrics.engines, self._metrics.home):
            for one in vars(holder).values():
                if isinstance(one, Counter | Gauge | Histogram):
                    series = one.labels(*("x" for _ in one._definition.labels)) if one._definition.labels else one
                    {Counter: Counter.inc, Gauge: Gauge.inc, Histogram: lambda it: it.observe(1.0)}[type(one)](series)
                    used.append(one._definition.name)
        with self._tracing.received(trace, "Counting.count"):
            pass
        self._tracing.close()
        return used


@pytest.fixture(scope="module")
def spans() -> Iterator[Collector]:
    with collector() as running:
        yield running


@pytest.fixture(scope="module")
def stage(ray_cluster: None, spans: Collector) -> Iterator[StageCall]:
    from ray import serve
    from ray.serve.config import HTTPOptions, ProxyLocation

    serve.start(proxy_location=ProxyLocation.Disabled, http_options=HTTPOptions(host="127.0.0.1"))
    options = {"num_cpus": 0.1}
    handle = serve.run(
        serve.deployment(Counting, ray_actor_options=options).bind(spans.endpoint), name="counting", route_prefix=None
    )
    yield StageCall("Counting", handle)
    serve.shutdown()


def exported(wanted: set[str], seconds: float = 60.0) -> dict[str, set[str]]:
    """Series of ours that Ray exports -> their labels, once the `wanted` are among them; it reports every few seconds."""
    import ray

    node = ray.nodes()[0]
    address = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    until = time.monotonic() + seconds
    while True:
        families = text_string_to_metric_families(httpx.get(address, trust_env=False, timeout=30).text)
        samples = [sample for family in families for sample in family.samples]
        found = {sample.name: set(sample.labels) for sample in samples if sample.name.startswith("ray_lodestone_")}
        if found.keys() >= wanted or time.monotonic() > until:
            return found
        time.sleep(0.5)


async def test_metrics_and_traces_leave_a_replica(stage: StageCall, spans: Collector) -> None:
    here = Tracing(TelemetrySettings(otlp_endpoint=spans.endpoint), service="here")
    with here.span("caller"):
        used = await stage.call("count")
    here.close()
    assert set(used) == {one.name for one in TABLE}, "every metric is in some holder"

    wanted = {f"ray_{series}" for one in TABLE for series in one.series()}
    found = await asyncio.to_thread(exported, wanted)
    assert set(found) == wanted
    for one in TABLE:
        for series in one.series():
            assert found[f"ray_{series}"] >= {*one.labels, "deployment"}, series

    by_name = {span.name: (service, span) for service, span in spans.spans()}
    (service, called), (_, caller) = by_name["Counting.count"], by_name["caller"]
    assert service == "there"
    assert (called.trace_id, called.parent_span_id) == (caller.trace_id, caller.span_id)


def test_outside_of_a_replica_there_is_no_mirror(ray_cluster: None) -> None:
    assert mirror_of_replica() is None
