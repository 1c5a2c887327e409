"""Kill an index run that adds a part to indexed pictures; the next one goes on, and no model of another part is loaded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.support.home import open_runtime
from tests.support.home_copies import copy_folder
from tests.support.pictures import write_photos

from lodestone.embeddings.slices import read_part
from lodestone.indexing.faults import VARIABLE
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

PICTURES, SLICE, IN_FLIGHT = 24, 4, 2
FILE = "brightness-1"
SCRIPT = """
import json, sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from tests.support.home import open_runtime

from lodestone.indexing.parts import registry
from lodestone.indexing.parts.contract import Made, Reads, SlicePart, own_schema
from lodestone.indexing.parts.outputs import OutputsPart
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.text_encoders.minilm import MiniLM
from lodestone_schemas.collections import FieldKind

folder, pictures, processed = map(Path, sys.argv[1:])


class BrightnessPart(SlicePart):
    name = "brightness"
    version = "1"
    reads = Reads.PIXELS
    schema = own_schema(pa.field("brightness", pa.int64()))
    fields = (("brightness", FieldKind.INTEGER),)

    def prepare(self, picture):
        return int(np.asarray(picture.decoded.image).mean())

    def process(self, pictures):
        with processed.open("a") as file:
            file.writelines(f"{row.image_id}\\n" for row in pictures.rows)
        return [Made([{"brightness": value}]) for value in pictures.prepared]


def refuse(*_, **__):
    raise AssertionError("a model of another part was loaded")


if __name__ == "__main__":
    registry.PARTS = {"brightness": BrightnessPart}
    OutputsPart.setup = MiniLM.warm_up = refuse
    with open_runtime(folder, slice_size=4, slices_in_flight=2) as runtime:
        print(json.dumps(index_paths(runtime, IndexRequest((pictures,))).as_dict()["counts"]))
"""


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("part-kill")
    write_photos(folder / "pictures", PICTURES)
    with open_runtime(folder, slice_size=SLICE) as runtime:
        index_paths(runtime, IndexRequest((folder / "pictures",)))
    return folder


def run(folder: Path, pictures: Path, processed: Path, fault: str = "") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    command = [sys.executable, "-c", SCRIPT, str(folder), str(pictures), str(processed)]
    return subprocess.run(
        command, env={**environment, **({VARIABLE: fault} if fault else {})}, capture_output=True, text=True, check=False
    )


def stored(folder: Path) -> dict[Path, int]:
    """File -> time of its last change."""
    return {path: path.stat().st_mtime_ns for path in (folder / "home" / "embeddings").rglob("*.parquet")}


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("fault", ["after-rename:3", "embedding:4", "loading:1"])
def test_a_killed_run_loses_at_most_the_slices_in_hand(indexed: Path, tmp_path: Path, fault: str) -> None:
    copy_folder(indexed / "home", tmp_path / "home")
    before = stored(tmp_path)
    processed = tmp_path / "processed"

    killed = run(tmp_path, indexed / "pictures", processed, fault)
    kept = {path: time for path, time in stored(tmp_path).items() if path not in before}
    finished = run(tmp_path, indexed / "pictures", processed)

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert finished.returncode == 0, finished.stderr
    after = stored(tmp_path)
    assert before.items() <= after.items(), "files of other parts stay as they are"
    assert kept.items() <= after.items(), "what was finished is adopted"
    times = Counter(processed.read_text().split())
    assert len(times) == PICTURES
    assert sum(count - 1 for count in times.values()) <= IN_FLIGHT * SLICE
    with open_runtime(tmp_path, slice_size=SLICE) as runtime:
        rows = [
            row
            for record in runtime.catalog.slices()
            for row in read_part(runtime.embeddings, runtime.catalog.receipts(record.slice_id)[FILE], verify=True).to_pylist()
        ]
        values = {row["image_id"]: row["brightness"] for row in rows}
        assert len(rows) == len(values) == PICTURES
        for projection in runtime.projections().values():
            (points,) = runtime.store.scroll(projection.collection)
            assert {key: payload["brightness"] for key, payload in zip(points.ids, points.payloads, strict=True)} == values
