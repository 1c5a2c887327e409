"""The head of the cluster dies in the middle of a run: the driver says so and ends, and a new cluster finishes the work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.support.models import model_context
from tests.support.pictures import write_photos
from tests.support.ray_nodes import RayNodes, run_ray_nodes

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.nightly, pytest.mark.chaos]

_PICTURES, _SLICE = 64, 2
_RAYS_SECONDS = 20  # after which Ray would end the driver without a word
_SETTINGS = """
profile = "small"
[profiles.small]
direct = {{ pixels = "efficientnet-lite0#features" }}
[models]
cache = "{models}"
threads = 1
[index]
slice_size = {slice_size}
[cluster]
actors = 1
cpus_per_actor = 0.5
"""


def index(home: Path, nodes: RayNodes, address: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {"RAY_gcs_rpc_server_reconnect_timeout_s": str(_RAYS_SECONDS), "RAY_ADDRESS": nodes.address}
    return subprocess.Popen(
        [sys.executable, "-m", "lodestone_cli", "index", *arguments, "--home", str(home), "--address", address, "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **nodes.environment, **environment, "OMP_NUM_THREADS": "1"},
    )


def last_run(home: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "lodestone_cli", "runs", "show", "--home", str(home), "-o", "json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def finished(home: Path) -> list[Path]:
    return list((home / "embeddings").rglob("*.meta.parquet"))


@pytest.mark.timeout(400)
def test_a_run_whose_cluster_loses_its_head_ends_with_a_word_and_is_resumed(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", _PICTURES)
    home = tmp_path / "home"
    home.mkdir()
    settings = _SETTINGS.format(models=model_context().cache.root, slice_size=_SLICE)
    (home / "lodestone.toml").write_text(settings, encoding="utf-8")
    with run_ray_nodes(nodes=1) as nodes:
        driver = index(home, nodes, "auto", str(tmp_path / "photos"))
        try:
            while not finished(home):
                assert driver.poll() is None, driver.communicate()
                time.sleep(0.05)
            nodes.kill(0)
            output, errors = driver.communicate(timeout=60 + _RAYS_SECONDS)
        finally:
            driver.kill()
        assert driver.returncode == 13, (output, errors)
        told = json.loads(errors[errors.index("{") :])
        assert told["error"]["code"] == "cluster_lost", errors
        assert "is lost: its head" in told["error"]["detail"]
        assert "start the cluster again, then `lodestone index --resume`" in told["error"]["hint"]
        failed = last_run(home)
        assert (failed["state"], failed["error"].partition(":")[0]) == ("failed", "ClusterLostError")
        kept = {path: path.stat().st_mtime_ns for path in finished(home)}
        assert 0 < len(kept) < _PICTURES // _SLICE

        nodes.restart(nodes=1)
        resumed = index(home, nodes, nodes.address, "--resume")
        output, errors = resumed.communicate(timeout=200)
        assert resumed.returncode == 0, errors
        report = json.loads(output)
    assert report["images"] == _PICTURES
    assert report["counts"]["embedded"] <= _PICTURES - (len(kept) - 1) * _SLICE  # one may have been written in half
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    rows = Counter(key for path in finished(home) for key in pq.read_table(path).column("image_id").to_pylist())
    assert (len(rows), set(rows.values())) == (_PICTURES, {1})
