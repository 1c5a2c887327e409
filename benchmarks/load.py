"""How many points a second are loaded, beside a bare qdrant-client loader of the same vectors?

    python -m benchmarks.load [--points 20000] [--dim 768] [--rounds 3] [--edge]

One local Qdrant server. Ours reads Parquet slices, projects, asks the catalog for filter fields, upserts, and marks what is
loaded. The peers have vectors and payloads in memory and do nothing but send them by gRPC, in batches of the same size, waiting
for each: from as many threads as we use, and by the client's own `upload_collection`. All collections are made alike, without
a graph. Rounds take turns. `--edge` loads the embedded store instead, beside bare upserts into the engine.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from qdrant_client import QdrantClient, models
from scripts.fetch_qdrant import fetch
from tests.support.qdrant_server import run_qdrant

from benchmarks.machine import describe_machine, spread, table, verdict
from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import ImageRecord, ImageState, Receipt, SliceRecord
from lodestone.embeddings.slices import WrittenPart, fingerprint, write_part
from lodestone.embeddings.tables import outputs_table
from lodestone.files.opening import open_area
from lodestone.indexing.faults import Faults
from lodestone.indexing.progress import silent
from lodestone.indexing.sync.loading import load
from lodestone.indexing.sync.targets import SpaceTarget
from lodestone.indexing.tasks import META_PART, SliceParts
from lodestone.spaces.base import Projection, Vectors
from lodestone.store.base import PointBatch, VectorStore
from lodestone.store.edge.engine import upsert_operation
from lodestone.store.factory import open_store
from lodestone.store.limits import CALL_POINTS
from lodestone_schemas.collections import CollectionSpec

GOAL = 0.8  # of the points a second of the faster bare loader, into a server
WRITERS = 4
SLICE = 256
Loader = Callable[[], float]  # loads everything into an empty collection, returns the seconds
OUTPUT = OutputKey("bench", "features")


class UnitRows(Projection):
    """Stored outputs, normalised: the smallest projection there is."""

    name, requires, text_encoder = "bench", (OUTPUT,), None

    def __init__(self, dim: int) -> None:
        self.dim = dim

    @property
    def version(self) -> str:
        """See `Projection.version`."""
        return "1"

    def warm_up(self) -> None:
        """See `Projection.warm_up`."""

    def project(self, outputs: BackboneOutputs) -> Vectors:
        """See `Projection.project`."""
        rows = outputs[OUTPUT].astype(np.float32)
        unit: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit

    def project_texts(self, encoded: Vectors) -> Vectors:
        """See `Projection.project_texts`."""
        raise NotImplementedError


def make_home(folder: Path, *, points: int, dim: int, slice_rows: int = SLICE) -> SpaceTarget:
    """A catalog and Parquet slices of random outputs, as an index run leaves them."""
    catalog, area = Catalog.open(folder / "catalog.sqlite"), open_area(folder / "embeddings")
    corpus = catalog.ensure_corpus("bench")
    root = catalog.ensure_root(corpus.corpus_id, "/bench")
    rng = np.random.default_rng(0)
    for start in range(0, points, slice_rows):
        uris = [f"{row % 50:02}/{row:08}.jpg" for row in range(start, min(start + slice_rows, points))]
        ids = catalog.mint_image_ids(corpus.corpus_id, root.name, uris)
        images = [
            ImageRecord(ids[uri], corpus.corpus_id, root.root_id, uri, f"{start + row:064x}", 1, 0, ImageState.ACTIVE)
            for row, uri in enumerate(uris)
        ]
        catalog.add_images(images)
        rows = [(image.image_id, image.hash) for image in images]
        fp = fingerprint(rows, "bench")
        catalog.add_slices([(SliceRecord(fp, corpus.corpus_id, fp, len(rows), datetime.now(UTC)), [row[0] for row in rows])])
        outputs = rng.normal(size=(len(rows), dim)).astype(np.float16)
        rows_table = outputs_table([row[0] for row in rows], [row[1] for row in rows], {OUTPUT.output: outputs})
        written = write_part(area, corpus.corpus_id, fp, "bench-1", rows_table)
        catalog.record_receipts([_receipt(fp, "bench-1", written), _receipt(fp, META_PART, written)])
    parts = SliceParts("captions-bench", {"bench": "bench-1"})
    return SpaceTarget(catalog=catalog, embeddings=area, parts=parts, projection=UnitRows(dim))


def _receipt(slice_id: str, part: str, written: WrittenPart) -> Receipt:
    return Receipt(slice_id, part, written.path, written.rows, written.size, written.checksum, 0.0)


def ours(store: VectorStore, target: SpaceTarget) -> None:
    """What `lodestone index` does after embedding."""
    target.catalog.forget_loads(target.collection)
    load(store, target, progress=silent, faults=Faults())


def threads(client: QdrantClient, name: str, points: PointBatch) -> None:
    """Upserts from as many threads as ours, with `wait`."""

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
    """The client's own loader."""
    payloads = [dict(payload) for payload in points.payloads]
    client.upload_collection(name, points.vectors, payloads, list(points.ids), batch_size=CALL_POINTS, wait=True)


@contextmanager
def server_loaders(folder: Path, target: SpaceTarget, points: PointBatch) -> Iterator[Mapping[str, Loader]]:
    """Ours and the peers', on one server."""
    (folder / "qdrant").mkdir()
    with run_qdrant(fetch(), folder / "qdrant") as server:
        store = open_store("server", url=server.url, grpc_port=server.grpc_port, writers=WRITERS)
        client = QdrantClient(url=server.url, grpc_port=server.grpc_port, prefer_grpc=True, check_compatibility=False)
        loaders = {
            "lodestone": lambda: ours(store, target),
            f"qdrant-client, {WRITERS} threads": lambda: threads(client, target.collection, points),
            "qdrant-client, upload_collection": lambda: upload(client, target.collection, points),
        }
        yield {name: _on_empty(store, target, run) for name, run in loaders.items()}
        client.close()
        store.close()


@contextmanager
def edge_loaders(folder: Path, target: SpaceTarget, points: PointBatch) -> Iterator[Mapping[str, Loader]]:
    """As `server_loaders`, for the embedded store."""
    import qdrant_edge as qe

    from lodestone.store.edge.engine import create_field_indexes, engine_config

    store = open_store("edge", root=folder / "store")
    rounds = iter(range(1_000))

    def bare() -> None:
        place = folder / f"bare-{next(rounds)}"
        place.mkdir()
        spec = CollectionSpec(target.collection, target.dim)
        shard = qe.EdgeShard.create(str(place), engine_config(spec))
        create_field_indexes(shard, spec)
        for start in range(0, len(points), CALL_POINTS):
            end = start + CALL_POINTS
            shard.update(
                upsert_operation(PointBatch(points.ids[start:end], points.vectors[start:end], points.payloads[start:end]))
            )
        shard.flush()
        shard.close()

    yield {
        "lodestone": _on_empty(store, target, lambda: ours(store, target)),
        "qdrant-edge, bare upserts": lambda: _timed(bare),
    }
    store.close()


def _on_empty(store: VectorStore, target: SpaceTarget, run: Callable[[], None]) -> Loader:
    def loader() -> float:
        store.drop(target.collection)
        store.create(CollectionSpec(target.collection, target.dim))
        seconds = _timed(run)
        found, wanted = store.count(target.collection), target.catalog.count_images()
        if found != wanted:
            raise RuntimeError(f"{found} points were loaded, not {wanted}")
        return seconds

    return loader


def _timed(run: Callable[[], None]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def measure(loaders: Mapping[str, Loader], *, points: int, rounds: int) -> dict[str, list[float]]:
    """Points a second of each loader in each round; they take turns."""
    rates: dict[str, list[float]] = {name: [] for name in loaders}
    for _ in range(rounds):
        for name, run in loaders.items():
            rates[name].append(points / run())
    return rates


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table of rates, and ours as a share of the best peer's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--edge", action="store_true")
    parser.add_argument("--scratch", type=Path)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=chosen.scratch) as scratch:
        folder = Path(scratch)
        target = make_home(folder, points=chosen.points, dim=chosen.dim)
        points = target.points(list(target.catalog.slices()))
        with (edge_loaders if chosen.edge else server_loaders)(folder, target, points) as loaders:
            rates = measure(loaders, points=chosen.points, rounds=chosen.rounds)
    peer = max(np.median(values) for name, values in rates.items() if name != "lodestone")
    print(f"{chosen.points:,} points of {chosen.dim} dimensions, {chosen.rounds} rounds; {describe_machine()}\n")
    print(table([["loader", "points/s"], *([name, spread(values)] for name, values in rates.items())]))
    share = float(np.median(rates["lodestone"]) / peer)
    print(f"\nours / best peer: {share:.2f}" + ("" if chosen.edge else f"; goal {GOAL}: {verdict(met=share >= GOAL)}"))


if __name__ == "__main__":
    main()
