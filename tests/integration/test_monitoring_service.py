"""A served home reports its pictures and jobs, its queries stage by stage, and what goes wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.fake_services import START
from tests.support.home import settings_for
from tests.support.pictures import write_photos

from lodestone.access.caller import Caller
from lodestone.catalog.catalog import Catalog
from lodestone.config.serve import TelemetrySettings
from lodestone.config.settings import Settings
from lodestone.errors import CatalogError
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.services.sessions.home_facts import HomeFacts, RunningRuns
from lodestone_schemas.directories import JobInfo
from lodestone_schemas.service import Check, ServiceStatus
from lodestone_serve.http.application import create_app
from lodestone_serve.inference.home import home_services
from lodestone_serve.telemetry.metric_table import TABLE
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.telemetry.sampling import Sampler
from lodestone_serve.telemetry.tracing import Tracing

pytestmark = pytest.mark.asyncio(loop_scope="module")  # the home is opened once, and belongs to one loop


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("monitored")
    write_photos(folder / "pictures", 8)
    (folder / "pictures" / "000000.txt").write_text("a harbour with fishing boats at dawn\n")
    (folder / "pictures" / "broken.jpg").write_bytes(b"no picture")
    settings = settings_for(folder)
    with Runtime.open(settings) as runtime:
        index_paths(runtime, IndexRequest((folder / "pictures",), corpus="photos"))
    return settings


class Served:
    """A home behind its routes, with what it counts and traces."""

    def __init__(self, settings: Settings) -> None:
        self.metrics = Metrics()
        self.spans = InMemorySpanExporter()
        self.tracing = Tracing(TelemetrySettings(), exporter=self.spans)
        self.services = home_services(
            settings, observe_batch=self.metrics.text_batch.observe, observe_engines=self.metrics.engines
        )
        self.app = create_app(
            self.services, settings=settings.serve, token="secret", metrics=self.metrics, tracing=self.tracing
        )
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app=self.app), base_url="http://127.0.0.1:7860")

    def value(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(settings: Settings) -> AsyncIterator[Served]:
    served = Served(settings)
    await served.services.session.open()
    yield served
    await served.http.aclose()
    await served.services.session.close()


async def test_the_home_is_looked_at(served: Served) -> None:
    await Sampler(served.services.operations, served.metrics.home).look()
    assert served.value("lodestone_images", state="active") == 8
    assert served.value("lodestone_images", state="gone") == 0
    for space in served.services.session.live.answering.engine._encoder.collections:  # type: ignore[attr-defined]
        assert served.value("lodestone_collection_points", space=space) == 8
        assert served.value("lodestone_slices_unloaded", space=space) == 0
    assert served.value("lodestone_standing_failures") == 1
    assert served.value("lodestone_part_up", part="catalog") == 1
    assert 0 < served.value("lodestone_disk_free_bytes") < served.value("lodestone_disk_size_bytes")
    assert served.value("lodestone_sampled_timestamp_seconds") == pytest.approx(time.time(), abs=60)
    assert served.value("lodestone_sampling_failures_total") == 0


async def test_everything_in_the_table_can_be_scraped(served: Served) -> None:
    answer = await served.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    families = {(family.name, family.type) for family in text_string_to_metric_families(answer.text)}
    assert {(one.name, one.kind) for one in TABLE} <= families
    assert {"process_resident_memory_bytes", "process_start_time_seconds"} <= {name for name, _ in families}


async def test_a_query_is_measured_and_traced_by_its_stages(served: Served) -> None:
    stages = ("plan", "encode", "search", "fuse", "hydrate", "total")
    before = {stage: served.value("lodestone_query_stage_seconds_count", stage=stage) for stage in stages}
    passes, seconds = (served.value(f"lodestone_text_pass_seconds_{kind}") for kind in ("count", "sum"))
    answer = await served.http.post("/v1/search", json={"query": "boats in a harbour", "limit": 3})
    assert answer.status_code == 200, answer.text
    for stage in stages:
        assert served.value("lodestone_query_stage_seconds_count", stage=stage) == before[stage] + 1, stage
    assert served.value("lodestone_text_pass_seconds_count") == passes + 1
    took = answer.json()["timings_ms"]["total"] / 1000
    assert served.value("lodestone_text_pass_seconds_sum") - seconds <= took + 0.05
    assert served.value("lodestone_answers_total", stage=answer.json()["stage"]) >= 1
    await asyncio.to_thread(served.tracing.close)
    spans = {span.name: span for span in served.spans.get_finished_spans()}
    query = spans["query"]
    assert query.attributes["lodestone.query_id"] == answer.json()["query_id"]
    assert query.parent.span_id == spans["POST /v1/search"].context.span_id
    for stage in ("plan", "encode", "search", "hydrate"):
        assert spans[stage].context.trace_id == query.context.trace_id, stage


async def test_judgements_and_problems_are_counted(served: Served) -> None:
    answer = (await served.http.post("/v1/search", json={"query": "coloured dots on paper", "guides": 0})).json()
    right, wrong = answer["hits"][0]["image_id"], answer["hits"][-1]["image_id"]
    said = {"query_id": answer["query_id"], "relevant": [right], "irrelevant": [wrong]}
    for _ in range(2):  # saying it twice teaches nothing, and counts once
        assert (await served.http.post("/v1/feedback", json=said)).status_code == 200
    assert served.value("lodestone_judged_hits_total", judgement="relevant") == 1
    assert served.value("lodestone_judged_hits_total", judgement="irrelevant") == 1
    await Sampler(served.services.operations, served.metrics.home).look()
    assert served.value("lodestone_trust_topics") >= 1
    before = served.value("lodestone_errors_total", code="unknown_name", status="404")
    assert (await served.http.post("/v1/search", json={"query": "x", "spaces": ["nope"]})).status_code == 404
    assert served.value("lodestone_errors_total", code="unknown_name", status="404") == before + 1
    assert (await served.http.get("/v1/nothing")).status_code == 404
    assert served.value("lodestone_errors_total", code="not_found", status="404") == 1


async def test_a_failing_catalog_is_seen(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> int:
        raise CatalogError("the catalog cannot be read")

    sampler = Sampler(served.services.operations, served.metrics.home)
    await sampler.look()
    monkeypatch.setattr(Catalog, "count_images", fail)
    await asyncio.sleep(1.1)  # the last answer of readiness holds for a second
    await sampler.look()
    assert served.value("lodestone_part_up", part="catalog") == 0
    assert served.value("lodestone_part_up", part="store") == 1
    assert served.value("lodestone_sampling_failures_total") == 1
    assert served.value("lodestone_images", state="active") == 8, "the last that was seen"


class Facts:
    """Services whose home is whatever the test says."""

    def __init__(self) -> None:
        self.jobs: list[JobInfo] = []
        self.runs: dict[str, RunningRuns] = {}
        self.looks = 0

    async def status(self, caller: Caller) -> ServiceStatus:
        checks = {"store": Check(ok=True, milliseconds=1.0)}
        return ServiceStatus(ready=True, version="1", profile="embedded", started_at=START, images=1, checks=checks)

    async def facts(self, caller: Caller) -> HomeFacts:
        self.looks += 1
        return HomeFacts({}, {}, {}, 0, 0, {}, 0, self.runs, list(self.jobs), 1, 2)


@pytest.fixture
def looked() -> tuple[Facts, Metrics, Sampler]:
    facts, metrics = Facts(), Metrics()
    return facts, metrics, Sampler(facts, metrics.home, every_s=0.01)


async def test_a_job_that_stands_still_makes_no_steps(looked: tuple[Facts, Metrics, Sampler]) -> None:
    facts, metrics, sampler = looked
    steps = []
    for done in (1, 2, 2, 2, 3):
        facts.jobs = [JobInfo(job_id="j", corpus="c", reason="asked", state="running", stage="embed", done=done, total=9)]
        await sampler.look()
        steps.append(metrics.registry.get_sample_value("lodestone_job_steps_total"))
    assert steps == [1, 2, 2, 2, 3]
    assert metrics.registry.get_sample_value("lodestone_jobs", {"state": "running"}) == 1


async def test_a_failed_job_counts_once(looked: tuple[Facts, Metrics, Sampler]) -> None:
    facts, metrics, sampler = looked
    facts.jobs = [JobInfo(job_id="j", corpus="c", reason="asked", state="failed", error="x")]
    for _ in range(3):
        await sampler.look()
    assert metrics.registry.get_sample_value("lodestone_job_failures_total") == 1


async def test_runs_that_ended_leave_no_heartbeat(looked: tuple[Facts, Metrics, Sampler]) -> None:
    facts, metrics, sampler = looked
    facts.runs = {"index": RunningRuns(2, 1000.0)}
    await sampler.look()
    assert metrics.registry.get_sample_value("lodestone_runs_running", {"kind": "index"}) == 2
    facts.runs = {}
    await sampler.look()
    assert metrics.registry.get_sample_value("lodestone_runs_running", {"kind": "index"}) is None
    assert metrics.registry.get_sample_value("lodestone_run_heartbeat_timestamp_seconds", {"kind": "index"}) is None


async def test_looking_goes_on_until_closed(looked: tuple[Facts, Metrics, Sampler]) -> None:
    facts, _, sampler = looked
    sampler.start()
    async with asyncio.timeout(120):
        while facts.looks < 3:
            await asyncio.sleep(0.01)
    await sampler.close()
    seen = facts.looks
    await asyncio.sleep(0.05)
    assert facts.looks == seen


async def test_services_that_cannot_be_looked_at_are_left_alone() -> None:
    """Nothing runs in the background for them, no gauge is set, and it is no failure either."""
    metrics, tasks = Metrics(), asyncio.all_tasks()
    before = generate_latest(metrics.registry)
    sampler = Sampler(object(), metrics.home, every_s=0.001)
    sampler.start()
    assert asyncio.all_tasks() == tasks
    await sampler.look()
    await asyncio.sleep(0.01)
    await sampler.close()
    assert b"lodestone_sampling_failures_total 0.0" in before
    assert _of_the_home(generate_latest(metrics.registry)) == _of_the_home(before)


def _of_the_home(exposition: bytes) -> list[bytes]:
    return [line for line in exposition.splitlines() if line.startswith(b"lodestone_")]
