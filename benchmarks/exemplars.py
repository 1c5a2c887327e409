"""What are exemplars worth, and how much may they count? Text pass against text pass with exemplars, over captioned photos.

    python -m benchmarks.exemplars CAPTIONS.tsv IMAGES_DIR [--shares 0.1 1.0] [--weights 0.3 0.5 0.8] [--bridge FILE]

CAPTIONS.tsv has the columns file and caption, several rows a file. The pictures of the validation part are indexed; a share of
them gets all captions but their last, and every last caption is a query for its picture. Prints R@10 for each share and guide
weight, apart for targets that had a caption and targets that had none: a weight is good while it doesn't cost the latter.
Everything is the real thing: models, catalog, embedded store, engine.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.machine import describe_machine, table
from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.backbones.registry import make_backbone
from lodestone.catalog.catalog import Catalog
from lodestone.catalog.identity import caption_id
from lodestone.catalog.records import CaptionRecord, ImageRecord, ImageState
from lodestone.config.profiles import PROFILES
from lodestone.config.settings import ModelSettings, QuerySettings
from lodestone.evaluation.splits import split_by_hash
from lodestone.generators.exemplar import Exemplar
from lodestone.language.base import TextEncoder
from lodestone.language.registry import make_text_encoder
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.query.encoder import LocalEncoder
from lodestone.query.engine import QueryEngine
from lodestone.query.guiding import FusionSettings
from lodestone.query.weigher import make_weigher
from lodestone.spaces.base import Projection
from lodestone.spaces.registry import make_space
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import PointBatch
from lodestone.store.edge import EdgeStore
from lodestone_schemas.api import SearchRequest
from lodestone_schemas.collections import CAPTION_FIELDS, CollectionSpec

PROFILE = PROFILES["embedded"]
CAPTIONS = "captions-bench"
BATCH = 16
Captions = Mapping[str, Sequence[str]]


def validation(path: Path, *, most: int | None) -> dict[str, list[str]]:
    """File -> captions, of the part that is for tuning."""
    captions: dict[str, list[str]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            captions.setdefault(row["file"], []).append(row["caption"])
    return {name: captions[name] for name in split_by_hash(captions).validation[:most]}


class Bench:
    """The validation pictures in every space, and their captions' vectors; `engine` gives one share of them their captions."""

    def __init__(self, home: Path, images: Path, captions: Captions, *, bridge: Path | None) -> None:
        learnt = {} if bridge is None else {"bridge": bridge}
        context = ModelContext(ModelCache(ModelSettings().cache), artifacts=learnt)
        self.captions = captions
        self.projections = {name: make_space(name, context) for name in PROFILE.spaces}
        self.text: TextEncoder = make_text_encoder(PROFILE.text_encoder, context)
        self.text.warm_up()
        for projection in self.projections.values():
            projection.warm_up()
        self.catalog = Catalog.open(home / "catalog.sqlite")
        self.store = EdgeStore(home / "store", aliases=JsonAliasTable(home / "aliases.json"))
        corpus = self.catalog.ensure_corpus("photos")
        root = self.catalog.ensure_root(corpus.corpus_id, "/photos")
        self.ids = self.catalog.mint_image_ids(corpus.corpus_id, root.name, captions)
        self.catalog.add_images(
            [
                ImageRecord(self.ids[name], corpus.corpus_id, root.root_id, name, f"{row:064x}", 1, 0, ImageState.ACTIVE)
                for row, name in enumerate(captions)
            ]
        )
        outputs = _embed([images / name for name in captions], context)
        for projection in self.projections.values():
            self._load(projection, outputs)

    def _load(self, projection: Projection, outputs: BackboneOutputs) -> None:
        self.store.create(CollectionSpec(projection.collection, projection.dim))
        self.store.set_alias(projection.name, projection.collection)
        ids = list(self.ids.values())
        self.store.upsert(projection.collection, PointBatch(ids, projection.project(outputs), [{}] * len(ids)))

    def engine(self, captioned: Sequence[str], *, weight: float) -> QueryEngine:
        """An engine over the collection in which `captioned` have all captions but their last."""
        rows = [(self.ids[name], text) for name in captioned for text in dict.fromkeys(self.captions[name][:-1])]
        self.store.drop(CAPTIONS)
        self.store.create(CollectionSpec(CAPTIONS, self.text.dim, fields=CAPTION_FIELDS))
        self.store.set_alias("captions", CAPTIONS)
        self.store.upsert(
            CAPTIONS,
            PointBatch(
                [caption_id(image_id, "table", text) for image_id, text in rows],
                self.text.encode([text for _, text in rows]),
                [{"image": image_id, "source": "table"} for image_id, _ in rows],
            ),
        )
        self.catalog.set_captions(
            {
                self.ids[name]: [CaptionRecord(self.ids[name], "table", text) for text in self.captions[name][:-1]]
                for name in captioned
            }
        )
        return QueryEngine(
            store=self.store,
            catalog=self.catalog,
            encoder=LocalEncoder(projections=self.projections, text_encoders={self.text.name: self.text}, backbones={}),
            profile=PROFILE,
            settings=QuerySettings(deadline_ms=600_000),
            generators={"exemplar": Exemplar(self.store, self.catalog)},
            weigher=make_weigher(self.projections),
            fusion=FusionSettings(guide_weight=weight),
        )


def _embed(paths: Sequence[Path], context: ModelContext) -> BackboneOutputs:
    columns = {}
    for name in PROFILE.backbones:
        backbone = make_backbone(name, context)
        backbone.warm_up()
        batches = []
        for start in range(0, len(paths), BATCH):
            pixels = [backbone.prepare(Image.open(path).convert("RGB")) for path in paths[start : start + BATCH]]
            batches.append(backbone.embed(np.stack(pixels)))
        for output in backbone.outputs:
            columns[OutputKey(name, output.name)] = np.concatenate([batch[output.name] for batch in batches])
    return BackboneOutputs(columns)


async def found(engine: QueryEngine, bench: Bench, *, guides: int | None) -> np.ndarray:
    """(queries,) bool: whether the last caption's picture is among the first ten."""
    hits = []
    for name, texts in bench.captions.items():
        response = await engine.answer(SearchRequest(query=texts[-1], limit=10, guides=guides))
        hits.append(any(hit.image_id == bench.ids[name] for hit in response.hits))
    return np.array(hits)


def main() -> None:
    """Index, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captions", type=Path)
    parser.add_argument("images", type=Path)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--weights", type=float, nargs="+", default=[0.3, 0.5, 0.8])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--bridge", type=Path, help="weights to use instead of those that ship")
    parser.add_argument("--most", type=int, help="index only so many pictures")
    arguments = parser.parse_args()
    captions = validation(arguments.captions, most=arguments.most)
    rows = [("share captioned", "guide weight", "R@10 all", "captioned", "not captioned")]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), arguments.images, captions, bridge=arguments.bridge)
        names = list(captions)
        plain = asyncio.run(found(bench.engine(names[:1], weight=0.0), bench, guides=0))
        for share in arguments.shares:
            draws = [_draw(len(names), share, seed) for seed in range(arguments.seeds if share < 1 else 1)]
            rows.append((f"{share:.0%}", "text pass", *_recalls([(plain, had) for had in draws])))
            for weight in arguments.weights:
                results = []
                for had in draws:
                    engine = bench.engine([name for name, one in zip(names, had, strict=True) if one], weight=weight)
                    results.append((asyncio.run(found(engine, bench, guides=None)), had))
                rows.append((f"{share:.0%}", f"{weight:g}", *_recalls(results)))
        bench.store.close()
        bench.catalog.close()
    print(table(rows))
    print(f"{len(captions)} pictures, one query each; spaces {', '.join(PROFILE.spaces)}; {describe_machine()}")


def _draw(count: int, share: float, seed: int) -> np.ndarray:
    had = np.zeros(count, bool)
    had[np.random.default_rng(seed).permutation(count)[: max(1, round(share * count))]] = True
    return had


def _recalls(results: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[str, str, str]:
    def mean(parts: Sequence[np.ndarray]) -> str:
        return f"{np.mean([part.mean() for part in parts]):.3f}" if all(len(part) for part in parts) else "-"

    return (
        mean([hits for hits, _ in results]),
        mean([hits[had] for hits, had in results]),
        mean([hits[~had] for hits, had in results]),
    )


if __name__ == "__main__":
    main()
