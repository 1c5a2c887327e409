"""What does a client of the real service see, one that says nothing to the proxy, while nobody answers behind it?"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pytest
from tests.support.homes import Service, home_settings, index, running_service, wait_until, write_pictures
from tests.support.image_servers import ImageServer

from lodestone_serve.front import GRACE_S

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(300)]

SOON = {"query": "a photo of a cat", "guides": 0, "deadline_ms": 1_000}
DRAWN = """
[generators.drawn]
kind = "http"
url = "{url}"
timeout_s = 60
options = {{ allow_hosts = ["127.0.0.1"] }}
"""


@pytest.fixture(scope="module")
def pictures() -> Iterator[ImageServer]:
    with ImageServer(mode="hang") as server:
        yield server


@pytest.fixture(scope="module")
def service(pictures: ImageServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("front")
    write_pictures(folder / "pictures", drawn=2)
    index(home_settings(folder / "home"), folder / "pictures")
    (folder / "home" / "lodestone.toml").write_text(DRAWN.format(url=pictures.url), encoding="utf-8")
    with running_service(folder / "home", patience_s=2, upkeep=False) as running:
        yield running


@pytest.fixture
def http(service: Service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=60, trust_env=False) as client:
        yield client


def replica(service: Service) -> psutil.Process:
    family = psutil.Process(service.process.pid).children(recursive=True)
    (found,) = [one for one in family if "ServeReplica:" in " ".join(one.cmdline())]
    return found


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, object]:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    told: dict[str, object] = answer.json()
    assert told["code"] == code
    return told


def test_a_replica_that_hangs_dies_and_comes_back(service: Service, pictures: ImageServer, http: httpx.Client) -> None:
    """Silence ends at each request's deadline, a death is said at once, and both as problems."""
    assert http.post("/v1/search", json={**SOON, "deadline_ms": 10_000}).status_code == 200
    stuck = replica(service)
    stuck.send_signal(signal.SIGSTOP)

    started = time.monotonic()
    problem(http.post("/v1/search", json=SOON), 504, "deadline_exceeded")
    assert time.monotonic() - started >= 1.0 + GRACE_S
    problem(http.get("/v1/corpora"), 504, "deadline_exceeded")  # serve.patience_s
    told = http.get("/v1/corpora", headers={"X-Request-Timeout-Seconds": "0.5"})
    problem(told, 504, "deadline_exceeded")  # Ray Serve's own 408

    stuck.send_signal(signal.SIGCONT)

    with ThreadPoolExecutor(1) as pool:
        drawing = {"model": "drawn", "prompt": "a boat", "deadline_ms": 50_000}
        open_one = pool.submit(http.post, "/v1/images/generations", json=drawing)
        wait_until(lambda: pictures.asked)  # it is being worked on
        stuck.kill()
        answer = open_one.result()
    problem(answer, 503, "service_unavailable")
    assert answer.headers["retry-after"] == "1"
    problem(http.post("/v1/search", json=SOON), 504, "deadline_exceeded")  # nobody is there to keep the deadline

    wait_until(lambda: http.post("/v1/search", json={**SOON, "deadline_ms": 10_000}).status_code == 200, seconds=120)
    assert replica(service).pid != stuck.pid


def test_the_proxys_own_routes_stay_as_they_are(http: httpx.Client) -> None:
    answer = http.get("/-/healthz")
    assert (answer.status_code, answer.text) == (200, "success")
