"""Pictures exported a second, beside a bare pyarrow loop over the same stored files.

    python -m benchmarks.indexing.export_files [--pictures 5000] [--rounds 3] [--workers 2]

Pictures and outputs of models are made up, the projections are those of the profile `embedded`. Lodestone reads the catalog,
projects the outputs, and writes, syncs and hashes Parquet files with all facts and the vectors of all spaces. The peer lists
the same files, reads ids, names and outputs by pyarrow, projects them by the same projections, and writes one Parquet file of
ids, names and vectors. Rounds take turns; each writes into an empty directory.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data.recorded_slices import record_slices
from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.repeat import take_turns, timed
from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.catalog.records import ImageRecord
from lodestone.config.settings import load_settings
from lodestone.embeddings.tables import matrix_of, meta_table, outputs_table
from lodestone.export.request import ExportRequest
from lodestone.export.run import area_of, run_export
from lodestone.home.runtime import Runtime
from lodestone.indexing.bulk_work import in_threads
from lodestone.indexing.parts.registry import SliceParts
from lodestone.indexing.tasks import META_PART

OURS: Final = "lodestone export"
PEER: Final = "pyarrow loop"


def make_home(runtime: Runtime, pictures: int) -> None:
    """Fill an empty home with made-up pictures, as an index run leaves them."""
    backbones = runtime.backbones()
    parts = SliceParts.of(backbones, runtime.text_encoder).backbones
    rng = np.random.default_rng(0)

    def tables(images: Sequence[ImageRecord]) -> dict[str, pa.Table]:
        ids, hashes = [one.image_id for one in images], [one.hash for one in images]
        facts = [{"image_id": i.image_id, "uri": i.uri, "hash": i.hash, "size": i.size, "mtime_ns": 0} for i in images]
        made = {META_PART: meta_table(facts)}
        for backbone in backbones:
            outputs = {spec.name: rng.random((len(ids), spec.dim), np.float32).astype(np.float16) for spec in backbone.outputs}
            made[parts[backbone.name]] = outputs_table(ids, hashes, outputs)
        return made

    record_slices(runtime.catalog, runtime.embeddings, tables, pictures=pictures)


def bare_loop(runtime: Runtime, target: Path) -> None:
    """Write ids, names and vectors of all stored pictures by pyarrow alone."""
    folder = runtime.embeddings.folder
    if folder is None:
        raise RuntimeError("the embeddings are in no folder")
    projections = runtime.projections()
    for projection in projections.values():
        projection.warm_up()
    parts = SliceParts.of(runtime.backbones(), runtime.text_encoder).backbones
    tables = []
    for meta in sorted(folder.rglob(f"*.{META_PART}.parquet")):
        about = pq.read_table(meta, columns=["image_id", "uri"])
        outputs: dict[OutputKey, np.ndarray] = {}
        for backbone, part in parts.items():
            table = pq.read_table(meta.with_name(meta.name.replace(META_PART, part))).combine_chunks()
            outputs |= {OutputKey(backbone, name): matrix_of(table, name) for name in table.column_names[2:]}
        vectors = {name: projection.project(BackboneOutputs(outputs)) for name, projection in projections.items()}
        columns = {"id": about["image_id"], "uri": about["uri"]} | {
            name: pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1]) for name, rows in vectors.items()
        }
        tables.append(pa.table(columns))
    target.mkdir()
    pq.write_table(pa.concat_tables(tables), target / "all.parquet", compression="zstd")


def measure(options: argparse.Namespace, report: Report) -> None:
    """Export the same pictures by both, in turns."""
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        folder = Path(scratch)
        settings = load_settings({"home": folder / "home"}).settings
        with Runtime.open(settings, purpose="a benchmark") as runtime:
            make_home(runtime, options.pictures)
            target = folder / "out"

            def ours() -> float:
                shutil.rmtree(target, ignore_errors=True)
                area, host = area_of(runtime, str(target)), in_threads(options.workers)
                return timed(lambda: run_export(runtime, ExportRequest(), area, host=host))

            def peer() -> float:
                shutil.rmtree(target, ignore_errors=True)
                return timed(lambda: bare_loop(runtime, target))

            seconds = take_turns({OURS: ours, PEER: peer}, options.rounds)
    for name, values in seconds.items():
        report.record("pictures a second", [options.pictures / value for value in values], case=name)
    report.record("export / loop", [theirs / mine for mine, theirs in zip(seconds[OURS], seconds[PEER], strict=True)])


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--pictures", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scratch", type=Path)


BENCHMARK = Benchmark(
    name="export_files",
    about=__doc__,
    figures=(
        Figure("pictures a second", "pictures/s"),
        Figure("export / loop", "ratio", peer="a pyarrow loop over the same files, of the same round"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
