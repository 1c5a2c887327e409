"""Kill the index job at five points; the next run brings the same ids, counts and vectors, and embeds nothing twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from tests.support.home import image_ids, open_runtime, vectors_of
from tests.support.pictures import write_bad_files, write_photos

from lodestone.indexing.faults import VARIABLE
from lodestone_jobs.index import run_index

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

PICTURES, SLICE, PARTS = 40, 8, 4
_DRAW = random.Random(20_26)
# The highest visit of each point in an undisturbed run bounds the draw.
POINTS = [
    ("embedding", _DRAW.randint(2, 5)),
    ("after-rename", _DRAW.randint(2, 5 * PARTS - 1)),
    ("loading", _DRAW.randint(1, 3)),
    ("before-promotion", 1),
    ("discovering", 1),
]
SCRIPT = """
import json, sys
from pathlib import Path
from tests.support.home import open_runtime
from lodestone_jobs.index import run_index
if __name__ == "__main__":
    folder, executor, corpus = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    with open_runtime(folder, executor=executor, workers=1 if executor == "inline" else 2) as runtime:
        report = run_index(runtime, [folder.parent / "photos"], corpus=corpus)
        print(json.dumps(report.as_dict()))
"""


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chaos")
    write_photos(folder / "photos", PICTURES)
    write_bad_files(folder / "photos" / "bad")
    return folder


@pytest.fixture(scope="module")
def undisturbed(photos: Path) -> dict[str, Any]:
    report = finish(photos / "undisturbed")
    return {"report": report, **state_of(photos / "undisturbed")}


def start(folder: Path, *, executor: str = "inline", fault: str = "") -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop(VARIABLE, None)
    if fault:
        environment[VARIABLE] = fault
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), executor, "default"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


def finish(folder: Path) -> dict[str, Any]:
    """Index in this process until the end, as the next run after a killed one does."""
    with open_runtime(folder) as runtime:
        report: dict[str, Any] = json.loads(json.dumps(run_index(runtime, [folder.parent / "photos"]).as_dict()))
        return report


def state_of(folder: Path) -> dict[str, Any]:
    """What can be compared between homes: ids depend on the corpus, so pictures are named by their uris."""
    with open_runtime(folder) as runtime:
        uris = {image_id: uri for uri, image_id in image_ids(runtime).items()}
        vectors = {
            space: {uris[key]: vector for key, vector in vectors_of(runtime, space).items()} for space in ("bridge", "labels")
        }
        corpus_id = runtime.catalog.corpus("default").corpus_id
        return {
            "ids": set(uris),
            "vectors": vectors,
            "failures": {(f.uri, f.code) for f in runtime.catalog.failures(corpus_id=corpus_id)},
            "leftovers": [str(path) for path in runtime.home.embeddings.rglob("*.part")],
        }


def finished_slices(folder: Path) -> int:
    """Pictures in slices of which every part lies on disk."""
    groups: dict[str, int] = {}
    for path in (folder / "home" / "embeddings").rglob("*.parquet"):
        if not path.name.startswith(".") and ".captions-" not in path.name:
            key = path.name.split(".", 1)[0]
            groups[key] = groups.get(key, 0) + 1
    return sum(count == PARTS - 1 for count in groups.values())


def assert_like(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found["failures"] == wanted["failures"]
    assert found["leftovers"] == []
    for space, vectors in wanted["vectors"].items():
        assert found["vectors"][space].keys() == vectors.keys()
        cosines = [float(np.dot(vector, found["vectors"][space][uri])) for uri, vector in vectors.items()]
        assert min(cosines) >= 0.99999


@pytest.mark.nightly_beyond(3)
@pytest.mark.parametrize(("point", "visit"), POINTS, ids=[point for point, _ in POINTS])
def test_a_killed_run_is_finished_by_the_next(photos: Path, undisturbed: dict[str, Any], point: str, visit: int) -> None:
    folder = photos / point
    process = start(folder, fault=f"{point}:{visit}")
    _, err = process.communicate(timeout=280)
    assert process.returncode == -signal.SIGKILL, err
    done = finished_slices(folder)
    ids_before = ids_of(folder)
    report = finish(folder)
    found = state_of(folder)
    assert_like(found, undisturbed)
    assert ids_before <= found["ids"]
    assert report["images"] == undisturbed["report"]["images"]
    total = undisturbed["report"]["counts"]["embedded"]
    slices = -(-(total + len(undisturbed["failures"])) // SLICE)
    # Finished slices are loaded while others are embedded, so a run that is killed there may have left some.
    assert report["counts"].get("embedded", 0) <= (slices - done) * SLICE
    if point == "discovering":
        assert report["counts"]["embedded"] == total
    again = finish(folder)
    assert again["counts"].get("embedded", 0) == 0


def ids_of(folder: Path) -> set[str]:
    with open_runtime(folder) as runtime:
        return set(image_ids(runtime).values())


@pytest.mark.parametrize("executor", [pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.nightly]), "processes"])
def test_a_killed_driver_is_continued_and_leaves_no_workers(photos: Path, undisturbed: dict[str, Any], executor: str) -> None:
    folder = photos / executor
    process = start(folder, executor=executor)
    deadline = time.monotonic() + 200
    embeddings = folder / "home" / "embeddings"
    while not any(embeddings.rglob("*.meta.parquet")) and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    workers = psutil.Process(process.pid).children(recursive=True)
    names = {worker.pid: worker.name() for worker in workers}
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    # Ray's own agents notice the death of their raylet later, by themselves; what works for us must be gone at once.
    ours = [worker for worker in workers if "Agent" not in names.get(worker.pid, "")]
    _, alive = psutil.wait_procs(ours, timeout=60)
    assert not [worker for worker in alive if worker.status() != psutil.STATUS_ZOMBIE]
    done = finished_slices(folder)
    report = finish(folder)
    assert done >= 1
    assert report["counts"].get("embedded", 0) <= undisturbed["report"]["counts"]["embedded"] - (done - 1) * SLICE
    assert_like(state_of(folder), undisturbed)
