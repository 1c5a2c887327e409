"""Points loaded a second, beside bare loaders of the same vectors.

    python -m benchmarks.indexing.load [--points 20000] [--dim 768] [--rounds 3] [--edge]

There is one local Qdrant server. Lodestone reads Parquet slices, projects them, reads filter fields from the catalog, upserts,
and marks what is loaded. The peers have vectors and payloads in memory and only send them by gRPC, in batches of the same size,
waiting for each: from as many threads as Lodestone uses, and by the client's own `upload_collection`. All collections are made
alike, without a graph. Rounds take turns. `--edge` loads the embedded store instead, beside bare upserts into the engine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from qdrant_client import QdrantClient, models
from scripts.fetch_qdrant import fetch
from tests.support.qdrant_server import run_qdrant

from benchmarks.data.recorded_slices import SLICE, record_slices
from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.repeat import take_turns, timed
from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import ImageRecord
from lodestone.embeddings.tables import outputs_table
from lodestone.files.opening import open_area
from lodestone.indexing.faults import Faults
from lodestone.indexing.parts.registry import SliceParts
from lodestone.indexing.progress import silent
from lodestone.indexing.sync.loading import load
from lodestone.indexing.sync.targets import SpaceTarget
from lodestone.indexing.tasks import META_PART
from lodestone.spaces.base import Projection, Vectors
from lodestone.store.base import PointBatch, VectorStore
from lodestone.store.edge.engine import upsert_operation
from lodestone.store.factory import open_store
from lodestone.store.limits import CALL_POINTS
from lodestone_schemas.collections import CollectionSpec

WRITERS = 4
LODESTONE = "lodestone"
UPLOAD = "qdrant-client, upload_collection"
Loader = Callable[[], float]  # loads everything into an empty collection and returns the seconds
OUTPUT = OutputKey("bench", "features")


class UnitRows(Projection):
    """Projection that only normalises stored outputs."""

    name, requires, text_encoder = "bench", (OUTPUT,), None

    def __init__(self, dim: int) -> None:
        self.dim = dim

    @property
    def version(self) -> str:
        """Return the version of this projection."""
        return "1"

    def warm_up(self) -> None:
        """Do nothing: there is no model."""

    def project(self, outputs: BackboneOutputs) -> Vectors:
        """Return the stored outputs as (n, dim) float32 rows of length one."""
        rows = outputs[OUTPUT].astype(np.float32)
        unit: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit

    def project_texts(self, encoded: Vectors) -> Vectors:
        """Raise NotImplementedError: this space takes no texts."""
        raise NotImplementedError


def make_home(folder: Path, *, points: int, dim: int, slice_rows: int = SLICE) -> SpaceTarget:
    """Make a catalog and Parquet slices of random outputs, as an index run leaves them."""
    catalog, area = Catalog.open(folder / "catalog.sqlite"), open_area(folder / "embeddings")
    rng = np.random.default_rng(0)

    def tables(images: Sequence[ImageRecord]) -> dict[str, pa.Table]:
        outputs = {OUTPUT.output: rng.normal(size=(len(images), dim)).astype(np.float16)}
        return {"bench-1": outputs_table([one.image_id for one in images], [one.hash for one in images], outputs)}

    record_slices(catalog, area, tables, pictures=points, slice_rows=slice_rows, shared={META_PART: "bench-1"})
    parts = SliceParts("captions-bench", {"bench": "bench-1"})
    return SpaceTarget(catalog=catalog, embeddings=area, parts=parts, projection=UnitRows(dim))


def load_with_lodestone(store: VectorStore, target: SpaceTarget) -> None:
    """Load as `lodestone index` does after embedding."""
    target.catalog.forget_loads(target.collection)
    load(store, target, progress=silent, faults=Faults())


def upsert_from_threads(client: QdrantClient, name: str, points: PointBatch) -> None:
    """Upsert from `WRITERS` threads, waiting for each batch."""

    def send(start: int) -> None:
        end = start + CALL_POINTS
        batch = models.Batch(
            ids=list(points.ids[start:end]),
            vectors=points.vectors[start:end].tolist(),
            payloads=[dict(payload) for payload in points.payloads[start:end]],
        )
        client.upsert(name, batch, wait=True)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(send, range(0, len(points), CALL_POINTS)))


def upload(client: QdrantClient, name: str, points: PointBatch) -> None:
    """Upload with the client's own loader."""
    payloads = [dict(payload) for payload in points.payloads]
    client.upload_collection(name, points.vectors, payloads, list(points.ids), batch_size=CALL_POINTS, wait=True)


@contextmanager
def server_loaders(folder: Path, target: SpaceTarget, points: PointBatch) -> Iterator[Mapping[str, Loader]]:
    """Start a server and yield the loaders of Lodestone and of its peers, by name."""
    (folder / "qdrant").mkdir()
    with run_qdrant(fetch(), folder / "qdrant") as server:
        store = open_store("server", url=server.url, grpc_port=server.grpc_port, writers=WRITERS)
        client = QdrantClient(url=server.url, grpc_port=server.grpc_port, prefer_grpc=True, check_compatibility=False)
        loaders = {
            LODESTONE: lambda: load_with_lodestone(store, target),
            f"qdrant-client, {WRITERS} threads": lambda: upsert_from_threads(client, target.collection, points),
            UPLOAD: lambda: upload(client, target.collection, points),
        }
        yield {name: _on_empty(store, target, run) for name, run in loaders.items()}
        client.close()
        store.close()


@contextmanager
def edge_loaders(folder: Path, target: SpaceTarget, points: PointBatch) -> Iterator[Mapping[str, Loader]]:
    """Yield the loaders of the embedded store, by name."""
    import qdrant_edge as qe

    from lodestone.store.edge.engine import create_field_indexes, engine_config

    store = open_store("edge", root=folder / "store")
    rounds = iter(range(1_000))

    def bare() -> None:
        place = folder / f"bare-{next(rounds)}"
        place.mkdir()
        spec = CollectionSpec(target.collection, target.dim)
        shard = qe.EdgeShard.create(str(place), engine_config(spec))
        create_field_indexes(shard, spec.fields)
        for start in range(0, len(points), CALL_POINTS):
            end = start + CALL_POINTS
            shard.update(
                upsert_operation(PointBatch(points.ids[start:end], points.vectors[start:end], points.payloads[start:end]))
            )
        shard.flush()
        shard.close()

    yield {
        LODESTONE: _on_empty(store, target, lambda: load_with_lodestone(store, target)),
        "qdrant-edge, bare upserts": lambda: timed(bare),
    }
    store.close()


def _on_empty(store: VectorStore, target: SpaceTarget, run: Callable[[], None]) -> Loader:
    def loader() -> float:
        store.drop(target.collection)
        store.create(CollectionSpec(target.collection, target.dim))
        seconds = timed(run)
        loaded, expected = store.count(target.collection), target.catalog.count_images()
        if loaded != expected:
            raise RuntimeError(f"{loaded} points were loaded, not {expected}")
        return seconds

    return loader


def measure(options: argparse.Namespace, report: Report) -> None:
    """Load the same points with every loader, in turns."""
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        folder = Path(scratch)
        target = make_home(folder, points=options.points, dim=options.dim)
        points = target.points(list(target.catalog.slices()))
        with (edge_loaders if options.edge else server_loaders)(folder, target, points) as loaders:
            seconds = take_turns(loaders, options.rounds)
    rates = {name: [options.points / value for value in values] for name, values in seconds.items()}
    fastest_peer = max(np.median(values) for name, values in rates.items() if name != LODESTONE)
    report.text(f"{options.points:,} points of {options.dim} dimensions, {options.rounds} rounds.")
    for name, values in rates.items():
        report.record("points a second", values, case=name)
    store = "embedded store" if options.edge else "server"
    report.record("Lodestone / fastest peer", float(np.median(rates[LODESTONE]) / fastest_peer), case=store)
    if UPLOAD in rates:
        ratios = [ours / theirs for ours, theirs in zip(rates[LODESTONE], rates[UPLOAD], strict=True)]
        report.record("Lodestone / upload_collection", ratios)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--edge", action="store_true", help="load the embedded store instead of a server")
    parser.add_argument("--scratch", type=Path)


BENCHMARK = Benchmark(
    name="load",
    about=__doc__,
    figures=(
        Figure("points a second", "points/s"),
        Figure("Lodestone / fastest peer", "ratio", peer="the fastest bare loader"),
        Figure("Lodestone / upload_collection", "ratio", peer="upload_collection from memory, of the same round"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
