"""Further processes answer as their owner does, see what it writes, and cost no answer when they die, hang or cannot start."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from tests.support.homes import Service, home_settings, index, running_service, wait_until, write_pictures

from lodestone.access.visibility import Visibility
from lodestone.config.settings import Settings
from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone.query.asking.request_context import NOW
from lodestone_schemas.api import DoneEvent, SearchOptions, SearchRequest, SearchResponse
from lodestone_serve.hosting.answering import pool as pools
from lodestone_serve.hosting.answering.messages import Observed
from lodestone_serve.hosting.answering.pool import AnsweringPool, SpreadAnswers, Worker, WorkerGoneError
from lodestone_serve.inference.home import home_services
from lodestone_serve.telemetry.metrics import Metrics

WORDS = ("a cat", "a cup of coffee", "a rocket on its way", "a person", "coloured dots")
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of two corpora: photographs with drawings, and one drawing more."""
    root = tmp_path_factory.mktemp("answering")
    write_pictures(root / "photos", drawn=12)
    write_pictures(root / "other", drawn=3)
    settings = home_settings(root / "home")
    index(settings, root / "photos")
    index(settings, root / "other", corpus="other")
    return root / "home"


def settings_of(home: Path) -> Settings:
    return home_settings(home, serve={"upkeep": False}, tags={"implicit": False})


class Opened:
    """A home that this process owns, and a pool of workers beside it."""

    def __init__(self, session: Any, pool: AnsweringPool, metrics: Metrics, observed: list[Observed]) -> None:
        self.session = session
        self.pool = pool
        self.metrics = metrics
        self.observed = observed
        self.own_answers = 0

    @property
    def engine(self) -> Any:
        return self.session.live.answering.engine

    def spread(self) -> SpreadAnswers:
        def own() -> Any:
            self.own_answers += 1
            return self.engine

        return SpreadAnswers(self.pool, own)

    async def worker(self) -> Worker:
        while not self.pool.ready:
            await asyncio.sleep(0.05)
        return self.pool.ready[0]


@asynccontextmanager
async def opened(home: Path, *, processes: int = 1) -> AsyncIterator[Opened]:
    services = home_services(settings := settings_of(home))
    session: Any = services.session
    await session.open()
    metrics = Metrics()
    observed: list[Observed] = []
    pool = AnsweringPool(settings, session.runtime.store, observed.append, metrics)
    pool.start(processes)
    try:
        yield Opened(session, pool, metrics, observed)
    finally:
        await pool.close()
        await session.close()


def told(response: SearchResponse) -> dict[str, float]:
    return {hit.image_id: hit.score for hit in response.hits}


async def test_a_worker_answers_as_its_owner_does(home: Path) -> None:
    async with opened(home) as here:
        worker = await here.worker()
        for words in WORDS:
            for options in ({}, {"guides": 0}, {"limit": 3, "offset": 2}, {"filters": {"corpora": ["other"]}}):
                request = SearchRequest(query=words, **options)
                expected = await here.engine.answer(request)
                found = await worker.ask("answer", request, context=NOW)
                assert told(found) == pytest.approx(told(expected), abs=1e-5)
                assert list(told(found)) == list(told(expected))
                assert (found.warnings, found.dropped, found.stage) == (expected.warnings, expected.dropped, expected.stage)
        known = next(iter(told(expected)))
        options = SearchOptions(limit=4)
        found = await worker.ask("similar", known, options, context=NOW)
        assert told(found) == pytest.approx(told(await here.engine.similar(known, options)), abs=1e-5)
        assert known not in told(found)
        events = [event async for event in worker.events(SearchRequest(query=WORDS[0]), NOW)]
        assert isinstance(events[-1], DoneEvent)
        assert {("texts", "observe"), ("engines", "asked")} <= {(one.observer, one.method) for one in here.observed}
        assert [type(event) for event in events] == [
            type(one) async for one in here.engine.events(SearchRequest(query=WORDS[0]))
        ]


async def test_what_a_query_may_see_and_errors_pass_between_processes(home: Path) -> None:
    async with opened(home) as here:
        worker = await here.worker()
        corpora = {one.name: one.corpus_id for one in here.session.runtime.catalog.corpora()}
        everything = told(await worker.ask("answer", SearchRequest(query="a cat", limit=50), context=NOW))
        seen = replace(NOW, visibility=Visibility(corpora=frozenset({"other"})))
        some = told(await worker.ask("answer", SearchRequest(query="a cat", limit=50), context=seen))
        images = here.session.runtime.catalog.images(list(everything))
        assert {image.corpus_id for image in images.values()} == set(corpora.values())
        assert set(some) == {one for one, image in images.items() if image.corpus_id == corpora["other"]}
        with pytest.raises(NotFoundError) as raised:
            await worker.ask("similar", "00000000-0000-0000-0000-000000000000", SearchOptions(), context=NOW)
        with pytest.raises(NotFoundError) as own:
            await here.engine.similar("00000000-0000-0000-0000-000000000000", SearchOptions())
        assert (raised.value.message, raised.value.hint) == (own.value.message, own.value.hint)
        with pytest.raises(InvalidRequestError):
            await worker.ask("answer", SearchRequest(query="a cat", fusion="no such rule"), context=NOW)


async def test_what_the_owner_writes_is_seen_at_once_and_what_a_worker_answered_is_recorded(home: Path) -> None:
    async with opened(home) as here:
        worker, runtime = await here.worker(), here.session.runtime
        before = await worker.ask("answer", SearchRequest(query="a rocket", guides=0), context=NOW)
        await here.pool.settled(before.query_id)
        assert runtime.catalog.query(before.query_id) is not None
        first = before.hits[0].image_id
        points = {name: runtime.store.retrieve(name, [first]) for name in runtime.store.aliases().values()}
        for name in points:
            runtime.store.delete(name, [first])
        try:
            after = await worker.ask("answer", SearchRequest(query="a rocket", guides=0), context=NOW)
        finally:
            for name, batch in points.items():
                if len(batch) and batch.vectors.shape[1]:
                    runtime.store.upsert(name, batch)
            runtime.catalog.reset_tag_outbox()  # sparse vectors are not read back
            runtime.deliver_tags()
        assert first not in told(after)
        again = await worker.ask("answer", SearchRequest(query="a rocket", guides=0), context=NOW)
        assert again.hits[0].image_id == first


async def test_searches_go_to_whoever_has_the_fewest_under_way(home: Path) -> None:
    async with opened(home) as here:
        worker, spread = await here.worker(), here.spread()
        await spread.answer(SearchRequest(query="a cat"))
        assert here.own_answers == 1, "nobody asks beside it: no message is worth its time"
        await asyncio.gather(*(spread.answer(SearchRequest(query=words, guides=0)) for words in WORDS * 2))
        assert here.own_answers == 1 + len(WORDS), "every second one"
        assert worker.busy == 0


async def test_a_worker_that_dies_costs_no_answer_and_is_replaced(home: Path) -> None:
    async with opened(home) as here:
        worker, spread = await here.worker(), here.spread()
        expected = told(await here.engine.answer(SearchRequest(query="a cat")))
        under_way = [asyncio.create_task(spread.answer(SearchRequest(query="a cat"))) for _ in range(6)]
        await asyncio.sleep(0)
        assert worker.busy > 0
        os.kill(worker.pid or 0, signal.SIGKILL)
        for answer in await asyncio.gather(*under_way):
            assert told(answer) == pytest.approx(expected, abs=1e-5)
        while (other := await here.worker()) is worker:
            await asyncio.sleep(0.05)
        assert other.pid != worker.pid
        assert told(await other.ask("answer", SearchRequest(query="a cat"), context=NOW)) == pytest.approx(expected, abs=1e-5)
        assert here.metrics.registry.get_sample_value("lodestone_answering_processes_ended_total") == 1


@pytest.mark.nightly
@pytest.mark.slow
async def test_a_silent_worker_is_passed_over_and_killed_if_it_stays_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "HUNG_S", 8.0)
    async with opened(home) as here:
        worker, spread = await here.worker(), here.spread()

        async def two_at_once() -> int:
            """Ask this process and the worker; return how many answers were this process's own."""
            before = here.own_answers
            answers = await asyncio.gather(*(spread.answer(SearchRequest(query="a cat")) for _ in range(2)))
            assert all(answer.hits for answer in answers)
            return here.own_answers - before

        assert await two_at_once() == 1
        os.kill(worker.pid or 0, signal.SIGSTOP)
        assert await two_at_once() == 2, "it was asked, and fell silent"
        assert not worker.ready
        assert await two_at_once() == 2
        os.kill(worker.pid or 0, signal.SIGCONT)
        while not worker.ready:
            await asyncio.sleep(0.05)
        assert await two_at_once() == 1, "it answers again"
        os.kill(worker.pid or 0, signal.SIGSTOP)
        while worker in here.pool.ready or not here.pool.ready:
            await asyncio.sleep(0.05)
        assert not psutil.pid_exists(worker.pid or 0)


async def test_a_stream_that_has_not_begun_goes_on_here(home: Path) -> None:
    async with opened(home) as here:
        worker, spread = await here.worker(), here.spread()
        os.kill(worker.pid or 0, signal.SIGSTOP)

        async def streamed() -> list[Any]:
            return [event async for event in spread.events(SearchRequest(query="a cat"))]

        both = [asyncio.create_task(streamed()) for _ in range(2)]
        while not worker.busy:
            await asyncio.sleep(0.01)
        os.kill(worker.pid or 0, signal.SIGKILL)
        for events in await asyncio.gather(*both):
            assert isinstance(events[-1], DoneEvent)
        assert here.own_answers == 2


async def test_a_worker_that_cannot_start_leaves_the_owner_to_answer(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    async with opened(home) as here:
        answer = await here.spread().answer(SearchRequest(query="a cat"))
        assert (len(answer.hits) > 0, here.own_answers, here.pool.ready) == (True, 1, [])
        while not here.metrics.registry.get_sample_value("lodestone_answering_processes_ended_total"):
            await asyncio.sleep(0.05)


async def test_a_caller_that_leaves_is_not_worked_for(home: Path) -> None:
    async with opened(home) as here:
        worker = await here.worker()
        os.kill(worker.pid or 0, signal.SIGSTOP)
        asked = asyncio.create_task(worker.ask("answer", SearchRequest(query="a cat"), context=NOW))
        await asyncio.sleep(0.1)
        assert worker.busy == 1
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert worker.busy == 0
        os.kill(worker.pid or 0, signal.SIGCONT)
        assert len((await worker.ask("answer", SearchRequest(query="a cat"), context=NOW)).hits) > 0


async def test_all_workers_see_what_the_owner_deletes(home: Path) -> None:
    async with opened(home, processes=3) as here:
        while len(here.pool.ready) < 3:
            await asyncio.sleep(0.05)
        runtime, request = here.session.runtime, SearchRequest(query="a person", guides=0)
        found = [await worker.ask("answer", request, context=NOW) for worker in here.pool.ready]
        first = found[0].hits[0].image_id
        kept = {name: runtime.store.retrieve(name, [first]) for name in runtime.store.aliases().values()}
        for name in kept:
            runtime.store.delete(name, [first])
        try:
            after = [told(await worker.ask("answer", request, context=NOW)) for worker in here.pool.ready]
        finally:
            for name, batch in kept.items():
                if len(batch) and batch.vectors.shape[1]:
                    runtime.store.upsert(name, batch)
            runtime.catalog.reset_tag_outbox()  # sparse vectors are not read back
            runtime.deliver_tags()
        assert [first in told(answer) for answer in found] == [True] * 3
        assert [first in scores for scores in after] == [False] * 3


async def test_what_goes_wrong_in_a_worker_is_raised_here(home: Path) -> None:
    async with opened(home) as here:
        worker: Any = await here.worker()
        with pytest.raises(RuntimeError, match="TypeError"):
            await worker.ask("answer", "no request", "one too many", context=NOW)
        assert len((await worker.ask("answer", SearchRequest(query="a cat"), context=NOW)).hits) > 0


async def test_a_worker_that_has_ended_says_so(home: Path) -> None:
    async with opened(home) as here:
        worker = await here.worker()
        await here.pool.close()
        with pytest.raises(WorkerGoneError):
            await worker.ask("answer", SearchRequest(query="a cat"), context=NOW)
        assert not psutil.pid_exists(worker.pid or 0)


@pytest.fixture
def service(home: Path) -> Iterator[Service]:
    with running_service(home, processes=2, upkeep=False) as running:
        wait_until(lambda: "lodestone_answering_processes 2.0" in httpx.get(f"{running.url}/metrics").text)
        yield running


def workers_of(service: Service) -> list[psutil.Process]:
    return psutil.Process(service.process.pid).children()


def test_a_service_loses_no_answer_of_a_process_that_is_killed(service: Service) -> None:
    (worker,) = workers_of(service)

    def ask(number: int) -> httpx.Response:
        if number == 20:
            worker.kill()
        return httpx.post(f"{service.url}/v1/search", json={"query": WORDS[number % len(WORDS)]}, timeout=120)

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(ask, range(40)))
    assert {answer.status_code for answer in answers} == {200}
    assert all(answer.json()["hits"] for answer in answers)
    wait_until(lambda: any(one.pid != worker.pid for one in workers_of(service)))  # the owner may not have noticed before
    wait_until(lambda: "lodestone_answering_processes 2.0" in httpx.get(f"{service.url}/metrics").text)
    (other,) = workers_of(service)
    assert other.pid != worker.pid
    for number in range(8):
        answer = ask(number).json()
        assert httpx.get(f"{service.url}/v1/queries/{answer['query_id']}").status_code == 200, "recorded, whoever answered"


def ended(process: psutil.Process) -> Callable[[], bool]:
    return lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_supervisor_that_signals_all_processes_cuts_no_answer_short(home: Path) -> None:
    with running_service(home, processes=2, upkeep=False) as running:
        wait_until(lambda: "lodestone_answering_processes 2.0" in httpx.get(f"{running.url}/metrics").text)
        (worker,) = workers_of(running)
        worker.terminate()
        answers = [httpx.post(f"{running.url}/v1/search", json={"query": words}, timeout=120) for words in WORDS]
        assert {answer.status_code for answer in answers} == {200}
        assert worker.is_running()
        assert worker.status() != psutil.STATUS_ZOMBIE


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_its_owner(home: Path, number: int) -> None:
    with running_service(home, processes=3, upkeep=False) as running:
        wait_until(lambda: "lodestone_answering_processes 3.0" in httpx.get(f"{running.url}/metrics").text)
        workers = workers_of(running)
        assert len(workers) == 2
        running.process.send_signal(number)
        running.process.wait(60)
        for worker in workers:
            wait_until(ended(worker), seconds=30)
