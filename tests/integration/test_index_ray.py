"""Indexing on Ray Data gives what indexing in this process gives, and survives the death of workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from tests.support.home import image_ids, open_runtime, vectors_of
from tests.support.pictures import write_bad_files, write_photos
from tests.support.ray_cluster import ray_cluster  # noqa: F401 - a fixture

from lodestone.errors import OutOfSpaceError
from lodestone_jobs.index import run_index

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def test_ray_and_this_process_give_the_same_vectors(ray_cluster: None, tmp_path: Path) -> None:  # noqa: F811
    write_photos(tmp_path / "photos", 40)
    bad = [path for path, _ in write_bad_files(tmp_path / "photos" / "bad").values() if path.exists()]
    found = {}
    for executor in ("inline", "ray"):
        with open_runtime(tmp_path / executor, executor=executor, workers=2) as runtime:
            report = run_index(runtime, [tmp_path / "photos"])
            assert report.executor == executor
            assert report.images == 40
            assert report.counts["failed"] == len(bad)
            uris = {image_id: uri for uri, image_id in image_ids(runtime).items()}
            found[executor] = {uris[key]: vector for key, vector in vectors_of(runtime, "bridge").items()}
            again = run_index(runtime, [tmp_path / "photos"])
            assert again.counts.get("embedded", 0) == 0
    assert found["inline"].keys() == found["ray"].keys()
    assert all(float(np.dot(vector, found["ray"][uri])) >= 0.99999 for uri, vector in found["inline"].items())


def test_a_worker_that_dies_costs_nothing(ray_cluster: None, tmp_path: Path) -> None:  # noqa: F811
    write_photos(tmp_path / "photos", 160)
    stop = threading.Event()
    killed: list[int] = []

    def kill_one() -> None:
        while not stop.is_set() and not killed:
            for process in psutil.Process().children(recursive=True):
                if "MapWorker" in " ".join(process.cmdline()[:1]) and any(tmp_path.rglob("*.parquet")):
                    os.kill(process.pid, signal.SIGKILL)
                    killed.append(process.pid)
                    return
            time.sleep(0.05)

    killer = threading.Thread(target=kill_one)
    killer.start()
    try:
        with open_runtime(tmp_path, executor="ray", workers=2) as runtime:
            report = run_index(runtime, [tmp_path / "photos"])
            vectors = vectors_of(runtime, "bridge")
    finally:
        stop.set()
        killer.join()
    assert killed, "no worker was killed"
    assert report.images == len(vectors) == 160


def test_a_worker_without_space_ends_the_run_with_its_own_error(
    ray_cluster: None,  # noqa: F811
    tmp_path: Path,
) -> None:
    write_photos(tmp_path / "photos", 24)
    with open_runtime(tmp_path, executor="ray", workers=2) as runtime:
        runtime.home.prepare()
        runtime.home.thumbnails.rmdir()
        runtime.home.thumbnails.symlink_to("/dev/full")  # any file in there: no such folder; writing to it: no space
        with pytest.raises((OutOfSpaceError, Exception)) as caught:
            run_index(runtime, [tmp_path / "photos"])
        assert caught.value is not None
        runtime.home.thumbnails.unlink()
        runtime.home.thumbnails.mkdir()
        report = run_index(runtime, [tmp_path / "photos"])
        assert report.images == 24


def test_a_run_of_its_own_is_quiet_and_leaves_no_process_behind(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 24)
    script = (
        "import sys; from pathlib import Path\n"
        "from tests.support.home import open_runtime\n"
        "from lodestone_jobs.index import run_index\n"
        "folder = Path(sys.argv[1])\n"
        "with open_runtime(folder, executor='ray', workers=2) as runtime:\n"
        "    print(run_index(runtime, [folder / 'photos']).images)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["24"]
    assert done.stderr.strip() == ""
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(p.info["cmdline"] or [])]
