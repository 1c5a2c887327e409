"""A service whose models and engines are other processes answers as one process does, and ends what nobody wants."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest
from tests.support.cli import environment
from tests.support.homes import home_settings, index, stop, wait_until, write_pictures
from tests.support.image_servers import ImageServer
from tests.support.photos import CAT, photo
from tests.support.pictures import encoded

from lodestone.access.caller import LOCAL_CALLER
from lodestone.config.home import Home
from lodestone.config.settings import Settings
from lodestone.home.running_service.address import read_address
from lodestone_schemas.api import SearchOptions, SearchRequest
from lodestone_serve.inference.home import home_services

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(600)]

WORDS = SearchRequest(query="a photo of a cat", limit=5, guides=0)
GUIDED = SearchRequest(query="a cup of coffee", limit=5, guides=2, generators=["drawn"], seed=3)
SETTINGS = """
[generators.drawn]
kind = "http"
url = "{url}"
size = 64
timeout_s = 60
options = {{ allow_hosts = ["127.0.0.1"] }}

[generators.painted]
kind = "one-by-one"
size = 64
options = {{ folder = "{folder}" }}

[guide_cache]
limit_mb = 0

[query]
gate = false

[serve]
port = 0
upkeep = false

[serve.graph]
shape = "{shape}"

[serve.graph.fusion]
enabled = true
cpus = 0.1

[serve.graph.tagging]
enabled = true
cpus = 0.5
"""

# An engine of another distribution that draws one picture after the other, and notes each and its end.
PLUGIN = """
import asyncio
from pathlib import Path

import numpy as np

from lodestone.generators.base import Generator, Guide


class OneByOne(Generator):
    version = "1"

    def __init__(self, context):
        self.name, self.folder = context.name, Path(context.engine.options["folder"])

    async def warm_up(self):
        pass

    async def generate(self, request):
        return [guide async for guides in self.stream(request) for guide in guides]

    async def stream(self, request):
        try:
            for number in range(request.first, request.first + request.n):
                await asyncio.sleep(0.3)
                pixels = np.random.default_rng([request.seed, number]).integers(0, 256, (64, 64, 3), np.uint8)
                (self.folder / f"drawn-{request.n}-{number}").touch()
                yield [Guide(f"x/{number}", "x", 1.0, {}, pixels=pixels)]
        finally:
            (self.folder / f"ended-{request.n}").touch()
"""


def write_plugin(folder: Path) -> Path:
    """Write a distribution with the engine `one-by-one`, to be put on `PYTHONPATH`."""
    info = folder / "one_by_one-1.dist-info"
    info.mkdir(parents=True)
    (folder / "one_by_one.py").write_text(PLUGIN, "utf8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: one-by-one\nVersion: 1\n", "utf8")
    (info / "entry_points.txt").write_text("[lodestone.generators]\none-by-one = one_by_one:OneByOne\n", "utf8")
    return folder


@dataclass(frozen=True)
class Running:
    """The service, what it draws with, and what one process answered before."""

    url: str
    process: subprocess.Popen[bytes]
    pictures: ImageServer
    expected: dict[str, list[str]]
    folder: Path

    def replicas(self, deployment: str) -> list[psutil.Process]:
        family = psutil.Process(self.process.pid).children(recursive=True)
        return [one for one in family if f"ServeReplica:lodestone:{deployment}" in " ".join(one.cmdline())]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("graph")
    write_pictures(folder / "pictures", drawn=8)
    with ImageServer() as pictures:
        config = folder / "service.toml"
        config.write_text(SETTINGS.format(url=pictures.url, folder=folder, shape="graph"), "utf8")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LODESTONE_CONFIG", str(config))
            patch.syspath_prepend(write_plugin(folder / "plugin"))
            settings = home_settings(folder / "home")
            index(settings, folder / "pictures")
            expected = asyncio.run(_in_one_process(settings))
        process = subprocess.Popen(
            [sys.executable, "-m", "lodestone_cli", "serve", "--config", str(config)],
            env={
                **environment(folder / "home"),
                "LODESTONE_MODELS__THREADS": "1",
                "PYTHONPATH": os.pathsep.join([str(folder / "plugin"), *sys.path]),
            },
        )
        try:
            wait_until(lambda: read_address(Home(folder / "home")) is not None or process.poll() is not None, seconds=180)
            address = read_address(Home(folder / "home"))
            assert address is not None, "the service did not start"
            yield Running(address.url, process, pictures, expected, folder)
        finally:
            assert stop(process) == 0


async def _in_one_process(settings: Settings) -> dict[str, list[str]]:
    services = home_services(settings)
    await services.session.open()
    try:
        answers = {
            "words": await services.search.answer(WORDS, LOCAL_CALLER),
            "guided": await services.search.answer(GUIDED, LOCAL_CALLER),
            "picture": await services.search.by_picture(encoded(photo(CAT), "JPEG"), SearchOptions(limit=5), LOCAL_CALLER),
        }
        tags = await services.tagging.of_picture(encoded(photo(CAT), "JPEG"), LOCAL_CALLER)
    finally:
        await services.session.close()
    uris_of = {name: [hit.uri for hit in answer.hits] for name, answer in answers.items()}
    return {**uris_of, "labels": [label.text for label in tags.labels or ()]}


@pytest.fixture
def http(running: Running) -> Iterator[httpx.Client]:
    running.pictures.mode = "good"
    running.pictures.asked.clear()
    with httpx.Client(base_url=running.url, timeout=90, trust_env=False) as client:
        yield client


def uris(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [hit["uri"] for hit in answer.json()["hits"]]


def test_stages_are_processes_of_their_own(running: Running) -> None:
    for deployment in ("Ingress", "Encoders", "Fusion", "Tagging", "Generator-drawn", "Generator-painted"):
        assert len(running.replicas(deployment)) == 1


def test_answers_are_those_of_one_process(http: httpx.Client, running: Running) -> None:
    assert uris(http.post("/v1/search", json=WORDS.model_dump(mode="json"))) == running.expected["words"]
    image = {"image": ("c.jpg", encoded(photo(CAT), "JPEG"))}
    assert uris(http.post("/v1/search/image", files=image, data={"options": '{"limit": 5}'})) == running.expected["picture"]


def test_guides_come_from_the_engines_own_process_and_are_embedded_in_another(http: httpx.Client, running: Running) -> None:
    answer = http.post("/v1/search", json=GUIDED.model_dump(mode="json"))
    assert uris(answer) == running.expected["guided"]
    guides = answer.json()["guides"]
    assert {(guide["engine"], guide["status"]) for guide in guides} <= {("drawn", "used"), ("drawn", "rejected")}
    assert len(guides) == 2
    (engine,) = [one for one in http.get("/v1/generators").json()["engines"] if one["name"] == "drawn"]
    assert engine["version"]
    assert engine["guides"] >= 2


def test_an_engine_that_hangs_costs_the_query_no_more_than_its_deadline(http: httpx.Client, running: Running) -> None:
    running.pictures.mode = "hang"
    started = time.monotonic()
    answer = http.post("/v1/search", json={**GUIDED.model_dump(mode="json"), "deadline_ms": 2500})
    assert uris(answer)
    assert time.monotonic() - started < 10
    assert any("out of time" in one for one in answer.json()["dropped"])
    wait_until(lambda: all(asked.abandoned for asked in running.pictures.asked), seconds=20)


def test_a_reader_that_goes_away_ends_the_drawing_that_was_for_it(http: httpx.Client, running: Running) -> None:
    running.pictures.mode = "hang"
    body = {**GUIDED.model_dump(mode="json"), "deadline_ms": 60_000}
    with http.stream("POST", "/v1/search/stream", json=body) as answer:
        for line in answer.iter_lines():
            if line.startswith("event: results"):
                break
        wait_until(lambda: bool(running.pictures.asked), seconds=20)
    wait_until(lambda: all(asked.abandoned for asked in running.pictures.asked), seconds=20)


def test_pictures_are_tagged_in_a_process_of_its_own_as_in_one_process(http: httpx.Client, running: Running) -> None:
    uploaded = http.post("/v1/images/tags", files={"image": ("c.jpg", encoded(photo(CAT), "JPEG"))})
    assert uploaded.status_code == 200, uploaded.text
    assert [label["text"] for label in uploaded.json()["labels"]] == running.expected["labels"]
    assert uploaded.json()["quality"]["sharpness"] > 0
    broken = http.post("/v1/images/tags", files={"image": ("c.jpg", b"no picture")})
    assert (broken.status_code, broken.json()["code"]) == (422, "bad_image")
    image_id = http.post("/v1/search", json=WORDS.model_dump(mode="json")).json()["hits"][0]["image_id"]
    indexed = http.get(f"/v1/images/{image_id}/tags")
    assert indexed.status_code == 200, indexed.text
    assert indexed.json()["labels"]


def painted(http: httpx.Client, running: Running, guides: int) -> Iterator[int]:
    """The guide events of a query with guides of the engine that draws them in turn: how many were drawn when each came."""
    body = {"query": "a cup of coffee", "limit": 5, "guides": guides, "generators": ["painted"], "deadline_ms": 60_000}
    with http.stream("POST", "/v1/search/stream", json=body) as answer:
        for line in answer.iter_lines():
            if line == "event: guide":
                yield len(list(running.folder.glob(f"drawn-{guides}-*")))


def test_guides_of_one_call_are_seen_one_by_one_as_they_are_drawn(http: httpx.Client, running: Running) -> None:
    drawn = list(painted(http, running, 8))
    assert len(drawn) == 8
    assert drawn[0] < 8, "the first guide was shown when all were drawn"


def test_a_reader_that_goes_away_between_two_guides_ends_the_drawing(http: httpx.Client, running: Running) -> None:
    reading = painted(http, running, 63)
    next(reading)
    reading.close()
    wait_until((running.folder / "ended-63").exists, seconds=15)
    assert len(list(running.folder.glob("drawn-63-*"))) < 60


def test_nothing_of_the_graph_listens_beyond_this_machine(running: Running) -> None:
    """Replicas take pickled objects from whoever reaches them."""
    parent = psutil.Process(running.process.pid)
    listening = {
        connection.laddr.ip
        for process in (parent, *parent.children(recursive=True))
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_readiness_asks_the_models_where_they_are_and_a_killed_replica_of_them_is_replaced(
    http: httpx.Client, running: Running
) -> None:
    """With one replica there is nobody to ask meanwhile: queries wait until their deadline, or are told to come back."""
    assert http.get("/readyz").json()["checks"]["models"]["ok"]
    (replica,) = running.replicas("Encoders")
    replica.kill()
    replica.wait(180)
    with ThreadPoolExecutor(4) as pool:
        body = {**WORDS.model_dump(mode="json"), "deadline_ms": 3000}
        answers = list(pool.map(lambda _: http.post("/v1/search", json=body), range(8)))
    assert {answer.status_code for answer in answers} <= {200, 503, 504}
    assert {answer.json()["code"] for answer in answers if answer.status_code != 200} <= {
        "service_unavailable",
        "deadline_exceeded",
    }
    wait_until(lambda: http.get("/readyz").is_success, seconds=120)
    assert uris(http.post("/v1/search", json=WORDS.model_dump(mode="json"))) == running.expected["words"]
