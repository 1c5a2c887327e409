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
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.repeat import take_turns, timed
from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.catalog.records import ImageRecord, ImageState, Receipt, SliceRecord
from lodestone.config.settings import load_settings
from lodestone.embeddings.slices import WrittenPart, fingerprint, write_part
from lodestone.embeddings.tables import matrix_of, meta_table, outputs_table
from lodestone.export.request import ExportRequest
from lodestone.export.run import area_of, run_export
from lodestone.home.runtime import Runtime
from lodestone.indexing.bulk_work import in_threads
from lodestone.indexing.parts.registry import SliceParts
from lodestone.indexing.tasks import META_PART

SLICE: Final = 256
OURS: Final = "lodestone export"
PEER: Final = "pyarrow loop"


def make_home(runtime: Runtime, pictures: int) -> None:
    """Fill an empty home with made-up pictures, as an index run leaves them."""
    catalog, area = runtime.catalog, runtime.embeddings
    corpus = catalog.ensure_corpus("bench")
    root = catalog.ensure_root(corpus.corpus_id, "/bench")
    backbones = runtime.backbones()
    parts = SliceParts.of(backbones, runtime.text_encoder)
    rng = np.random.default_rng(0)
    for start in range(0, pictures, SLICE):
        uris = [f"{row % 50:02}/{row:08}.jpg" for row in range(start, min(start + SLICE, pictures))]
        ids = catalog.mint_image_ids(corpus.corpus_id, root.name, uris)
        images = [
            ImageRecord(ids[uri], corpus.corpus_id, root.root_id, uri, f"{start + row:064x}", 1, 0, ImageState.ACTIVE)
            for row, uri in enumerate(uris)
        ]
        catalog.add_images(images)
        rows = [(image.image_id, image.hash) for image in images]
        fp = fingerprint(rows, "bench")
        catalog.add_slices([(SliceRecord(fp, corpus.corpus_id, fp, len(rows), datetime.now(UTC)), [row[0] for row in rows])])
        receipts = []
        for backbone in backbones:
            outputs = {spec.name: rng.random((len(rows), spec.dim), np.float32).astype(np.float16) for spec in backbone.outputs}
            table = outputs_table([row[0] for row in rows], [row[1] for row in rows], outputs)
            part = parts.backbones[backbone.name]
            receipts.append(_receipt(fp, part, write_part(area, corpus.corpus_id, fp, part, table)))
        facts = [{"image_id": i.image_id, "uri": i.uri, "hash": i.hash, "size": i.size, "mtime_ns": 0} for i in images]
        receipts.append(_receipt(fp, META_PART, write_part(area, corpus.corpus_id, fp, META_PART, meta_table(facts))))
        catalog.record_receipts(receipts)


def _receipt(slice_id: str, part: str, written: WrittenPart) -> Receipt:
    return Receipt(slice_id, part, written.path, written.rows, written.size, written.checksum, 0.0)


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
