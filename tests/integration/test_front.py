"""Clients of the real service get sound answers at Serve's proxy, over TLS, and while nobody answers behind it."""

from __future__ import annotations

import signal
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest
from tests.support.certificates import Certificates, write_certificates
from tests.support.cli import run_here
from tests.support.homes import Service, home_settings, index, running_service, wait_until, write_pictures
from tests.support.image_servers import ImageServer

from lodestone.home.running_service.address import find_service
from lodestone_serve.traffic.proxy_middleware import GRACE_S

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(300)]

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
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return write_certificates(tmp_path_factory.mktemp("tls"), "localhost")


@pytest.fixture(scope="module")
def service(pictures: ImageServer, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("front")
    write_pictures(folder / "pictures", drawn=2)
    index(home_settings(folder / "home"), folder / "pictures")
    (folder / "home" / "lodestone.toml").write_text(DRAWN.format(url=pictures.url), encoding="utf-8")
    tls = {"tls_certificate": str(certificates.certificate), "tls_key": str(certificates.key)}
    with running_service(
        folder / "home", patience_s=2, upkeep=False, max_ongoing=2, max_queued=0, engine="ray", **tls
    ) as running:
        yield running


@pytest.fixture
def url(service: Service) -> str:
    """By the name that the certificate is for."""
    return f"https://localhost:{httpx.URL(service.url).port}"


@pytest.fixture
def http(url: str, certificates: Certificates) -> Iterator[httpx.Client]:
    trust = ssl.create_default_context(cafile=certificates.authority)
    with httpx.Client(base_url=url, timeout=60, trust_env=False, verify=trust) as client:
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


def test_answers_over_tls_say_to_stay_there(http: httpx.Client) -> None:
    answer = http.post("/v1/search", json={**SOON, "deadline_ms": 10_000})
    assert answer.status_code == 200
    assert answer.headers["strict-transport-security"].startswith("max-age=")


def test_commands_on_its_machine_find_the_service_although_its_certificate_is_for_another_name(service: Service) -> None:
    assert service.url.startswith("https://127.0.0.1:")
    assert find_service(service.home) == service.address
    found = run_here("search", "a photo of a cat", "--guides", "0", "-o", "json", home=service.home.path)
    assert found.code == 0, found.err
    assert len(found.json["hits"]) > 0


def test_commands_elsewhere_need_the_authoritys_file(url: str, certificates: Certificates, tmp_path: Path) -> None:
    asked = ["--url", url, "search", "a photo of a cat", "--guides", "0", "-o", "json"]
    found = run_here(*asked, home=tmp_path, LODESTONE_CA_FILE=str(certificates.authority))
    assert found.code == 0, found.err
    assert len(found.json["hits"]) > 0

    refused = run_here(*asked, home=tmp_path)
    assert refused.code == 8
    assert all(part in refused.err for part in ("service_unavailable", "not trusted", "LODESTONE_CA_FILE"))


def test_a_full_service_is_refused_by_the_proxy_and_counted_by_the_replica(
    service: Service, pictures: ImageServer, http: httpx.Client
) -> None:
    """The replica is stopped while it is asked, so that whatever is answered comes from the proxy."""
    answer = http.post("/v1/search", json={**SOON, "deadline_ms": 10_000})
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("x-lodestone")], "proxy and replica talk among themselves"
    process, before = replica(service), refusals(http)
    drawing = {"model": "drawn", "prompt": "a boat", "deadline_ms": 15_000}
    with ThreadPoolExecutor(2) as pool:
        drawn = [pool.submit(http.post, "/v1/images/generations", json=drawing) for _ in range(2)]
        wait_until(lambda: len(pictures.asked) >= 2)
        for _ in range(20):
            http.post("/v1/search", json=SOON)  # brings the proxy a new report, unless the one that it has still counts
            process.send_signal(signal.SIGSTOP)
            try:
                answer = http.post("/v1/search", json=SOON)
                health = http.get("/-/healthz")
            finally:
                process.send_signal(signal.SIGCONT)
            if answer.status_code == 429:
                break
        told = problem(answer, 429, "overloaded")
        assert (told["instance"], answer.headers["retry-after"]) == ("/v1/search", str(told["retry_after"]))
        assert health.status_code == 200
        assert http.get("/healthz").status_code == 200
        assert refusals(http) > before
        for one in drawn:
            one.result()
    pictures.asked.clear()
    assert http.post("/v1/search", json={**SOON, "deadline_ms": 10_000}).status_code == 200


def refusals(http: httpx.Client) -> float:
    """The refused searches that the replica has counted."""
    line = 'lodestone_http_requests_total{method="POST",route="/v1/search",status="429"} '
    return sum(float(one.removeprefix(line)) for one in http.get("/metrics").text.splitlines() if one.startswith(line))


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
