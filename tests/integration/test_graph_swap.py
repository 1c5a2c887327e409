"""Models are swapped while people search a service whose models are other processes, and no answer fails or is mixed.

Two replicas of Encoders: only one of them is told of a version when it comes into force, the other meets it in a query.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import httpx
import psutil
import pytest
from tests.support.cli import environment, run_here
from tests.support.homes import home_settings, index, stop, wait_until
from tests.support.pictures import encoded, photo, write_photos
from tests.support.steady_load import TEXTS, Load, Ranking, all_same, ranking, same, steady_load

from lodestone.catalog.catalog import Catalog
from lodestone.config.home import Home
from lodestone.config.settings import Settings
from lodestone.errors import NotFoundError
from lodestone.home.running_service.address import read_address
from lodestone.home.runtime import Runtime
from lodestone.query_log.trace import Trace
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone_schemas.api import SearchResponse

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(600)]

REPLICAS = 2
PICTURES = 12
LITE1 = "efficientnet-lite1"
SERVICE = f"""
log_level = "info"

[serve]
port = 0
upkeep = false

[serve.graph]
shape = "graph"

[serve.graph.encoders]
min_replicas = {REPLICAS}
max_replicas = {REPLICAS}
"""


@dataclass(frozen=True)
class Running:
    """The service and its home."""

    url: str
    settings: Settings
    process: subprocess.Popen[str]

    def replicas(self) -> set[int]:
        """Processes of Encoders."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        return {one.pid for one in family if "ServeReplica:lodestone:Encoders" in " ".join(one.cmdline())}

    def loaded(self, collection: str) -> int:
        """How often a replica of Encoders loaded a version because a call named it."""
        text = "".join(file.read_text("utf8") for file in (self.settings.home / "logs").glob("encoders*"))
        return sum("other versions of spaces are loaded" in line and collection in line for line in text.splitlines())

    def asked_now(self) -> dict[str, Ranking]:
        with httpx.Client(base_url=self.url, timeout=60, trust_env=False) as client:
            return {text: ranking(_search(client, text)) for text in TEXTS}

    def by_picture(self, space: str) -> Ranking:
        """What a picture finds in one space: Encoders embeds it."""
        files = {"image": ("one.jpg", encoded(photo(seed=3), "JPEG"))}
        options = {"options": json.dumps({"limit": 10, "deadline_ms": 30_000, "spaces": [space]})}
        answer = httpx.post(f"{self.url}/v1/search/image", files=files, data=options, timeout=60, trust_env=False)
        assert answer.status_code == 200, answer.text
        return ranking(SearchResponse.model_validate_json(answer.content))

    def swap(self, *arguments: str) -> dict[str, Any]:
        """Take a step by the command line, which finds the service."""
        done = run_here("models", "swap", *arguments, "--output", "json", home=self.settings.home)
        assert done.code == 0, done.err
        report: dict[str, Any] = done.json
        return report


def _search(client: httpx.Client, text: str) -> SearchResponse:
    answer = client.post("/v1/search", json={"query": text, "guides": 0, "limit": 10, "deadline_ms": 30_000})
    assert answer.status_code == 200, answer.text
    return SearchResponse.model_validate_json(answer.content)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("swap")
    write_photos(folder / "pictures", PICTURES)
    settings = home_settings(folder / "home")
    index(settings, folder / "pictures")
    config = folder / "service.toml"
    config.write_text(SERVICE, "utf8")
    process = subprocess.Popen(
        [sys.executable, "-m", "lodestone_cli", "serve", "--config", str(config)],
        env={**environment(settings.home), "LODESTONE_MODELS__THREADS": "1"},
        text=True,
    )
    try:
        home = Home(settings.home)
        wait_until(lambda: read_address(home) is not None or process.poll() is not None, seconds=180)
        address = read_address(home)
        assert address is not None, "the service did not start"
        yield Running(address.url, settings, process)
    finally:
        assert stop(process) == 0


def other_bridge(settings: Settings) -> str:
    """A version of the bridge that was learnt here, whose vectors of words and pictures lie elsewhere."""
    with Runtime.open(settings) as runtime:
        other = replace(BridgeWeights.shipped(), ridge_share=0.9)
        path = other.save(runtime.home.artifacts / "bridge")
        runtime.catalog.add_artifact("bridge", other.version, f"bridge/{path.name}", {})
        return other.version


def searched(catalog: Catalog, response: SearchResponse, space: str) -> set[str]:
    """Collections of a space that a query asked; it is recorded behind its answer."""

    def recorded() -> bool:
        try:
            return catalog.query(response.query_id) is not None
        except NotFoundError:
            return False

    wait_until(recorded, seconds=30)
    record = catalog.query(response.query_id)
    assert record is not None
    return {one.collection for one in Trace.from_bytes(record.trace).searches if one.space == space}


def assert_whole(load: Load, running: Running, space: str, versions: dict[str, dict[str, Ranking]]) -> None:
    """Nothing failed, nothing was left out, and each answer is that of the one version whose collection it searched."""
    assert load.failures == []
    seen = set()
    with Runtime.open(running.settings) as runtime:
        for text, response in load.answers:
            assert (response.warnings, response.dropped) == ([], []), text
            assert response.space_weights.keys() == {"bridge", "labels"}
            (collection,) = searched(runtime.catalog, response, space)
            assert same(ranking(response), versions[collection][text]), (text, collection)
            seen.add(collection)
    assert seen == versions.keys()


def test_a_version_is_put_in_force_and_taken_back_under_load(running: Running) -> None:
    version = other_bridge(running.settings)
    replicas, old, old_picture = running.replicas(), running.asked_now(), running.by_picture("bridge")
    assert len(replicas) == REPLICAS
    with steady_load(running.url) as load:
        prepared = running.swap("--space", "bridge", "--to", version)
        assert prepared["state"] == "shadow"
        assert all_same(running.asked_now(), old)
        assert running.swap("--promote")["state"] == "promoted"
        new, new_picture = running.asked_now(), running.by_picture("bridge")
        wait_until(lambda: running.loaded(prepared["new_collection"]) >= REPLICAS)
        load.more()
        assert running.swap("--rollback")["state"] == "rolled_back"
        assert all_same(running.asked_now(), old)
        assert same(running.by_picture("bridge"), old_picture)
    assert not any(same(new[text], old[text]) for text in TEXTS)
    assert not same(new_picture, old_picture)
    assert_whole(load, running, "bridge", {prepared["old_collection"]: old, prepared["new_collection"]: new})
    assert running.replicas() == replicas  # none was started anew


def test_another_backbone_is_computed_put_in_force_and_taken_back_under_load(running: Running) -> None:
    old, old_picture, files = running.asked_now(), running.by_picture("labels"), embedded(running)
    with steady_load(running.url) as load:
        prepared = running.swap("--executor", "inline", "--space", "labels", "--to", LITE1)
        assert (prepared["state"], prepared["embedded"], prepared["computed"]) == ("shadow", PICTURES, [LITE1])
        assert all_same(running.asked_now(), old)
        assert running.swap("--promote")["state"] == "promoted"
        new, new_picture = running.asked_now(), running.by_picture("labels")
        wait_until(lambda: running.loaded(prepared["new_collection"]) >= 1)
        load.more()
        assert running.swap("--rollback")["state"] == "rolled_back"
        assert all_same(running.asked_now(), old)
        assert same(running.by_picture("labels"), old_picture)
    after = embedded(running)
    assert {name: after[name] for name in files} == files
    assert all(f".{LITE1}-" in name for name in after.keys() - files.keys())  # only the new space was computed
    assert not any(same(new[text], old[text]) for text in TEXTS)
    assert not same(new_picture, old_picture)
    assert_whole(load, running, "labels", {prepared["old_collection"]: old, prepared["new_collection"]: new})


def embedded(running: Running) -> dict[str, int]:
    """Files of stored outputs, with when they were written."""
    return {path.name: path.stat().st_mtime_ns for path in (running.settings.home / "embeddings").rglob("*.parquet")}
