"""How long does a warm query take, stage by stage, in this process?

    python -m benchmarks.query_latency [--points 10000] [--queries 200] [--captioned 0.1]

Real models, catalog and embedded store; the vectors are random ones of the real lengths, because only their number
matters here. Prints p50 and p95 of the text pass and of the complete answer, milliseconds of each stage and of processor
time, and the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.machine import describe_machine
from lodestone.catalog.catalog import Catalog
from lodestone.catalog.identity import caption_id
from lodestone.catalog.records import CaptionRecord, ImageRecord, ImageState
from lodestone.config.engines import EngineSettings
from lodestone.config.profiles import PROFILES
from lodestone.config.settings import ModelSettings, QuerySettings
from lodestone.generators.engine_call import Engine
from lodestone.generators.engines.exemplar import Exemplar
from lodestone.generators.hub import Hub
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.query.encoder import LocalEncoder
from lodestone.query.engine import QueryEngine
from lodestone.query.space_weighting import make_weigher
from lodestone.spaces.base import Projection
from lodestone.spaces.registry import make_space
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import PointBatch, VectorStore
from lodestone.store.edge.store import EdgeStore
from lodestone.text_encoders.registry import make_text_encoder
from lodestone_schemas.api import ResultsEvent, SearchRequest
from lodestone_schemas.collections import CAPTION_FIELDS, CollectionSpec

ADJECTIVES = ("old", "red", "wet", "young", "small", "sleeping", "running", "broken", "wooden", "smiling")
NOUNS = ("dog", "bicycle", "child", "boat", "horse", "man in a hat", "woman", "street", "cat", "truck")
PLACES = ("at the beach", "in the snow", "on a roof", "in a kitchen", "by the river", "in a field", "on stage", "at night")
BATCH = 1000


def sentences(count: int) -> list[str]:
    """Different short descriptions, always the same ones."""
    rng = np.random.default_rng(7)
    words = [(rng.choice(ADJECTIVES), rng.choice(NOUNS), rng.choice(PLACES)) for _ in range(count)]
    return [f"a {adjective} {noun} {place}" for adjective, noun, place in words]


def fill(catalog: Catalog, store: VectorStore, spaces: Sequence[Projection], *, points: int, captions: Sequence[str]) -> None:
    """Pictures that are not there, with random vectors in every space; the first ones have a caption."""
    rng = np.random.default_rng(0)
    corpus = catalog.ensure_corpus("bench")
    root = catalog.ensure_root(corpus.corpus_id, "/bench")
    uris = [f"{number % 50:02}/{number:06}.jpg" for number in range(points)]
    ids = catalog.mint_image_ids(corpus.corpus_id, root.name, uris)
    payload = {"corpus": corpus.corpus_id, "root": root.root_id}
    for start in range(0, points, BATCH):
        some = uris[start : start + BATCH]
        catalog.add_images(
            [
                ImageRecord(ids[uri], corpus.corpus_id, root.root_id, uri, f"{start + row:064x}", 1, 0, ImageState.ACTIVE)
                for row, uri in enumerate(some)
            ]
        )
        for space in spaces:
            store.create(CollectionSpec(space.collection, space.dim))
            vectors = rng.normal(size=(len(some), space.dim)).astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            payloads = [{**payload, "folders": ["", uri[:2]]} for uri in some]
            store.upsert(space.collection, PointBatch([ids[uri] for uri in some], vectors, payloads))
    for space in spaces:
        store.set_alias(space.name, space.collection)
    if captions:
        encoder = make_text_encoder("minilm", context())
        encoder.warm_up()
        owners = [ids[uri] for uri in uris[: len(captions)]]
        catalog.set_captions({one: [CaptionRecord(one, "table", text)] for one, text in zip(owners, captions, strict=True)})
        store.create(CollectionSpec("captions-bench", encoder.dim, fields=CAPTION_FIELDS))
        store.upsert(
            "captions-bench",
            PointBatch(
                [caption_id(one, "table", text) for one, text in zip(owners, captions, strict=True)],
                encoder.encode(captions),
                [{**payload, "image": one, "source": "table", "folders": [""]} for one in owners],
            ),
        )
        store.set_alias("captions", "captions-bench")


def context() -> ModelContext:
    """Where converted models are kept, as in production."""
    return ModelContext(ModelCache(ModelSettings().cache))


async def measure(engine: QueryEngine, queries: Sequence[str]) -> tuple[list[float], list[float], dict[str, list[float]]]:
    """Milliseconds until the text pass and until the complete answer, and of each stage."""
    text, complete, stages = [], [], {}
    for query in queries:
        start, busy = time.perf_counter(), time.process_time()
        first = None
        async for event in engine.events(SearchRequest(query=query)):
            if first is None and isinstance(event, ResultsEvent):
                first = (time.perf_counter() - start) * 1000
        text.append(first or 0.0)
        complete.append((time.perf_counter() - start) * 1000)
        stages.setdefault("CPU", []).append((time.process_time() - busy) * 1000)
        for stage, spent in event.response.timings_ms.items():  # type: ignore[union-attr]  # the last event is `done`
            stages.setdefault(stage, []).append(spent)
    return text, complete, stages


def line(name: str, values: Sequence[float]) -> str:
    """A row of the table."""
    return f"{name:<12} p50 {np.percentile(values, 50):7.2f} ms   p95 {np.percentile(values, 95):7.2f} ms"


def main() -> None:
    """Build the collection, warm up, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--captioned", type=float, default=0.1, help="share of pictures with a caption")
    arguments = parser.parse_args()
    projections = {name: make_space(name, context()) for name in PROFILES["embedded"].spaces}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        catalog = Catalog.open(home / "catalog.sqlite")
        store = EdgeStore(home / "store", aliases=JsonAliasTable(home / "aliases.json"))
        captions = sentences(int(arguments.points * arguments.captioned))
        fill(catalog, store, list(projections.values()), points=arguments.points, captions=captions)
        engine = QueryEngine(
            store=store,
            catalog=catalog,
            encoder=LocalEncoder(
                projections=projections, text_encoders={"minilm": make_text_encoder("minilm", context())}, backbones={}
            ),
            profile=PROFILES["embedded"],
            settings=QuerySettings(),
            hub=Hub({"exemplar": Engine("exemplar", EngineSettings(kind="exemplar"), Exemplar(store, catalog))}),
            weigher=make_weigher(projections),
        )
        asyncio.run(_warm(engine))
        text, complete, stages = asyncio.run(measure(engine, sentences(arguments.queries)))
        store.close()
        catalog.close()
    print(f"{arguments.points} pictures, {len(captions)} captioned, {len(text)} queries, {', '.join(projections)}")
    print(line("text pass", text))
    print(line("complete", complete))
    for stage, values in stages.items():
        print("  " + line(stage, values))
    print(f"{describe_machine()}, load {os.getloadavg()[0]:.1f}")


async def _warm(engine: QueryEngine) -> None:
    await engine.warm_up()
    for query in sentences(20):
        await engine.answer(SearchRequest(query=query))


if __name__ == "__main__":
    main()
