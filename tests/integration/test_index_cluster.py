"""The Ray executor on a cluster of several nodes: nodes that are lost and added, and nodes that cannot do the work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.models import model_context
from tests.support.pictures import write_photos
from tests.support.ray_nodes import RayNodes, run_ray_nodes

pytestmark = [pytest.mark.ray, pytest.mark.slow]

_SLICES = 6
# A process of its own joins the cluster: Ray reads where it may listen when it is imported.
_DRIVER = """
import dataclasses, json, sys
from pathlib import Path
from uuid import UUID, uuid5
from lodestone.config.cluster import ClusterSettings
from lodestone.embeddings.slices import read_part
from lodestone.errors import LodestoneError
from lodestone.files.opening import open_area
from lodestone.sources.folders import hash_file
from lodestone.indexing.slices.pipeline import SlicePipeline
from lodestone.indexing.tasks import EmbedSettings, SliceRow, SliceTask
from lodestone_jobs.embedding import RayExecutor

options = json.loads(sys.argv[1])
folder = Path(options["folder"])
area = open_area(folder / options["name"])
settings = EmbedSettings(("efficientnet-lite0",), "minilm", Path(options["models"]), area, open_area(folder / "thumbnails"))
parts = SlicePipeline(settings).parts
seed = UUID(int=0)
paths = sorted((folder / "photos").iterdir())
rows = [SliceRow(str(uuid5(seed, p.name)), hash_file(p), str(p), p.name, p.stat().st_size, 1) for p in paths]
count = options["slices"]
tasks = [SliceTask(str(uuid5(seed, str(n))), str(seed), f"{n:032d}", tuple(rows[n::count]), parts) for n in range(count)]
executor = RayExecutor(settings, 1, cluster=ClusterSettings(**options["cluster"]))
answers = []
try:
    for receipt in executor.run(iter(tasks)):
        tables = {one.part: read_part(area, one) for one in receipt.receipts}
        outputs = next(table for part, table in tables.items() if part.startswith("efficientnet"))
        vectors = {i: v for i, v in zip(outputs["image_id"].to_pylist(), outputs.column(2).to_pylist())}
        answers.append({"slice": receipt.slice_id, "worker": receipt.worker, "embedded": receipt.embedded, "vectors": vectors,
            "error": str(receipt.error or ""), "failures": [f.uri for f in receipt.failures]})
        print("receipt", flush=True)
        if options.get("wait"):
            sys.stdin.readline()
    if options.get("actors"):
        import ray
        from ray._private.state import actors

        job = ray.JobID.from_hex(ray.get_runtime_context().get_job_id())
        found = [(one["ActorClassName"], one["Address"]["NodeID"], one["Pid"]) for one in actors(job_id=job).values()]
        gpus = [node["NodeID"] for node in ray.nodes() if node["Resources"].get("GPU")]
        print(json.dumps({"actors": found, "gpus": gpus}), flush=True)
except LodestoneError as error:
    answers = {"code": error.code, "message": error.message, "hint": error.hint}
finally:
    executor.close()
print(json.dumps(answers), flush=True)
"""


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    with run_ray_nodes(nodes=2, cpus=2) as cluster:
        cluster.add(cpus=2, gpus=1)
        yield cluster


def _driver(folder: Path, nodes: RayNodes, name: str, **options: Any) -> subprocess.Popen[str]:
    cluster = {"address": nodes.address, "cpus_per_actor": 0.5, **options.pop("cluster", {})}
    given = {
        "folder": str(folder),
        "name": name,
        "models": str(model_context().cache.root),
        "slices": _SLICES,
        "cluster": cluster,
    }
    return subprocess.Popen(
        [sys.executable, "-c", _DRIVER, json.dumps(given | options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **nodes.environment},
    )


def _lines(driver: subprocess.Popen[str]) -> list[str]:
    output, _ = driver.communicate(timeout=200)
    assert driver.returncode == 0
    return output.splitlines()


def _answers(driver: subprocess.Popen[str]) -> Any:
    return json.loads(_lines(driver)[-1])


@pytest.mark.nightly
def test_actors_with_shares_of_a_gpu_are_where_it_is_and_embed_what_one_process_embeds(nodes: RayNodes, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 24)
    (tmp_path / "photos" / "broken.jpg").write_bytes(b"no picture")
    shares: dict[str, dict[str, Any]] = {"cpus": {"actors": 1}, "gpus": {"gpus_per_actor": 0.5, "actors": (1, 2)}}
    found, placed = {}, {}
    for name, cluster in shares.items():
        *_, told, last = _lines(_driver(tmp_path, nodes, name, actors=True, cluster=cluster))
        answers = json.loads(last)
        assert len(answers) == _SLICES
        assert not any(answer["error"] for answer in answers)
        assert sum(answer["embedded"] for answer in answers) == 24
        assert [uri for answer in answers for uri in answer["failures"]] == ["broken.jpg"]
        found[name] = {key: vector for answer in answers for key, vector in answer["vectors"].items()}
        placed[name] = json.loads(told)
    assert len(found["cpus"]) == 24
    assert found["cpus"] == found["gpus"]
    assert len([name for name, _, _ in placed["cpus"]["actors"] if "EmbedSlices" in name]) == 1
    actors = {(node, pid) for name, node, pid in placed["gpus"]["actors"] if "EmbedSlices" in name}
    assert len(actors) == 2  # by Ray's own books both are on the only GPU
    assert {node for node, _ in actors} == set(placed["gpus"]["gpus"])


@pytest.mark.nightly
def test_a_lost_node_costs_nothing_and_a_new_one_works(nodes: RayNodes, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 36)
    undisturbed = {answer["slice"]: answer["vectors"] for answer in _answers(_driver(tmp_path, nodes, "calm", slices=12))}
    driver = _driver(tmp_path, nodes, "lost", wait=True, slices=12, cluster={"actors": 3})
    assert driver.stdout is not None
    assert driver.stdin is not None
    assert driver.stdout.readline().strip() == "receipt"
    nodes.kill(max(nodes.alive))
    nodes.add(cpus=2)
    driver.stdin.write("\n" * 12)
    driver.stdin.flush()
    answers = _answers(driver)
    assert sorted(answer["slice"] for answer in answers) == sorted({answer["slice"] for answer in answers})
    assert len(answers) == 12
    assert not any(answer["error"] for answer in answers)
    assert {answer["slice"]: answer["vectors"] for answer in answers} == undisturbed
    assert sum(map(len, undisturbed.values())) == 36


def test_an_address_where_nobody_answers_is_said_at_once(nodes: RayNodes, tmp_path: Path) -> None:
    from tests.support.ports import free_ports

    write_photos(tmp_path / "photos", 6)
    answer = _answers(_driver(tmp_path, nodes, "nobody", cluster={"address": f"127.0.0.1:{free_ports(1)[0]}"}))
    assert answer["code"] == "service_unavailable"
    assert "cannot be joined" in answer["message"]


@pytest.mark.nightly
def test_a_node_with_room_that_comes_late_is_waited_for(nodes: RayNodes, tmp_path: Path) -> None:
    """As where a group of GPU nodes starts at zero: nothing fits at first."""
    write_photos(tmp_path / "photos", 6)
    driver = _driver(tmp_path, nodes, "late", slices=2, cluster={"gpus_per_actor": 2})
    with pytest.raises(subprocess.TimeoutExpired):
        driver.wait(10)
    nodes.add(cpus=1, gpus=2)
    answers = _answers(driver)
    assert sum(len(answer["vectors"]) for answer in answers) == 6


def test_an_actor_that_fits_nowhere_is_refused_after_the_time_that_the_settings_give(nodes: RayNodes, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 6)
    answer = _answers(_driver(tmp_path, nodes, "gpus", cluster={"gpus_per_actor": 4, "wait_s": 4}))
    assert answer["code"] == "service_unavailable"
    assert "no node has room for embedding workers (one asks for 0.5 CPUs and 4 GPUs" in answer["message"]


def test_a_home_for_one_machine_is_refused_before_anything_is_read(nodes: RayNodes, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 6)
    flags = ["--home", str(tmp_path / "home"), "--address", nodes.address, "--output", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "lodestone_cli", "index", str(tmp_path / "photos"), *flags],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env={**os.environ, **nodes.environment},
    )
    assert (done.returncode, "bad_configuration" in done.stderr) == (4, True), done.stderr
    assert " nodes: its catalog is an SQLite file" in done.stderr
    assert "its store is embedded" in done.stderr
    assert not list((tmp_path / "home").rglob("*.sqlite"))
    assert not list((tmp_path / "home").rglob("probe-*"))
