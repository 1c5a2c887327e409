"""Plain multi-process loop over pictures: the peer that the index job is measured against.

Two processes with one thread each hold the same ONNX models. Each takes chunks of pictures from a queue, decodes them with
Pillow (JPEG draft mode), embeds them in batches, and writes one Parquet file a chunk and model, with Lodestone's columns. There
is no catalog, hash, thumbnail, vector store, second run or failure handling. The loop was committed before the job was tuned.

    python -m benchmarks.indexing.peer_loop --pictures FOLDER --out FOLDER
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import os
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from benchmarks.harness import Benchmark, Figure, Report

CHUNK = 250
BATCH = 4  # as the job: passes of 16 take as long a picture on a core
BACKBONES = ("efficientnet-lite0", "efficientnet-lite2")
DRAFT_MARGIN = 1.5  # decode no smaller than this many times the largest model input

_models: list[Any] = []
_out = Path()


def run(pictures: Sequence[Path], out: Path, *, models: Path, processes: int = 2) -> float:
    """Embed every picture; return the seconds from start to the last file on disk, model loading included.

    Raises:
        RuntimeError: not every picture was embedded.
    """
    started = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    chunks = [list(pictures[i : i + CHUNK]) for i in range(0, len(pictures), CHUNK)]
    # spawn: as a fresh program would, and safe beside the threads of whoever calls
    with mp.get_context("spawn").Pool(processes, _start, (str(models), str(out))) as pool:
        done = sum(pool.imap_unordered(_chunk, enumerate(chunks)))
    if done != len(pictures):
        raise RuntimeError(f"{done} of {len(pictures)} pictures were embedded")
    return time.perf_counter() - started


def run_here(pictures: Sequence[Path], out: Path, *, models: Path) -> None:
    """Do in this process what one process of the loop does, so that it can be profiled."""
    out.mkdir(parents=True, exist_ok=True)
    _start(str(models), str(out))
    for start in range(0, len(pictures), CHUNK):
        _chunk((start // CHUNK, list(pictures[start : start + CHUNK])))


def _start(models: str, out: str) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    from lodestone.backbones.registry import make_backbone
    from lodestone.models.cache import ModelCache
    from lodestone.models.context import ModelContext

    global _out  # noqa: PLW0603 - a pool's initialiser has no other place to leave things
    _out = Path(out)
    context = ModelContext(ModelCache(Path(models)), threads=1)
    for name in BACKBONES:
        model = make_backbone(name, context)
        model.warm_up(threads=1)
        _models.append(model)


def _chunk(numbered: tuple[int, list[Path]]) -> int:
    number, paths = numbered
    sides = [model.input_size for model in _models]
    columns: dict[tuple[str, str], list[np.ndarray[Any, Any]]] = {}
    meta: list[dict[str, Any]] = []
    for start in range(0, len(paths), BATCH):
        inputs: list[list[np.ndarray[Any, Any]]] = [[] for _ in _models]
        for path in paths[start : start + BATCH]:
            rgb, (width, height) = _decoded(path, max(sides))
            meta.append({"image_id": str(uuid.uuid4()), "uri": path.name, "width": width, "height": height})
            for model, batch in zip(_models, inputs, strict=True):
                batch.append(model.prepare(rgb))
        for model, batch in zip(_models, inputs, strict=True):
            for output, rows in model.embed(np.stack(batch)).items():
                columns.setdefault((model.name, output), []).append(rows)
    _write(number, meta, columns)
    return len(paths)


def _decoded(path: Path, side: int) -> tuple[Image.Image, tuple[int, int]]:
    with Image.open(path) as image:
        width, height = image.size
        reduced = _draft_scale(image.size, side)
        if reduced > 1:
            image.draft(None, (width // reduced, height // reduced))
        return image.convert("RGB"), (width, height)


def _write(number: int, meta: list[dict[str, Any]], columns: dict[tuple[str, str], list[np.ndarray[Any, Any]]]) -> None:
    ids = pa.array([row["image_id"] for row in meta])
    pq.write_table(pa.Table.from_pylist(meta), _out / f"{number:05d}.meta.parquet")
    for model in _models:
        table = {"image_id": ids}
        for spec in model.outputs:
            values = np.concatenate(columns[model.name, spec.name])
            table[spec.name] = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), spec.dim)
        pq.write_table(pa.table(table), _out / f"{number:05d}.{model.name}.parquet", use_dictionary=["image_id"])


def _draft_scale(size: tuple[int, int], side: int) -> int:
    return next(scale for scale in (8, 4, 2, 1) if scale == 1 or min(size) >= scale * DRAFT_MARGIN * side)


def measure(options: argparse.Namespace, report: Report) -> None:
    """Run the loop alone over a folder."""
    pictures = sorted(path for path in options.pictures.rglob("*.jpg"))
    seconds = run(pictures, options.out, models=options.models, processes=options.processes)
    report.record("seconds", seconds)
    report.record("images a second", len(pictures) / seconds)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--pictures", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True, help="the shared model cache")
    parser.add_argument("--processes", type=int, default=2)


BENCHMARK = Benchmark(
    name="peer_loop",
    about=__doc__,
    figures=(Figure("seconds", "s"), Figure("images a second", "images/s")),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
