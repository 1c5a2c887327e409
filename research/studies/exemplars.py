"""Gain of captions and exemplars, as users get them by default, over the text pass alone, paired over the same queries.

    python -m research.studies.exemplars --captions captions.tsv --images DIR [--part validation] [--shares 0.1 0.5]
        [--seeds 3] [--each 4] [--words 0] [--only NAME …] [--cache DIR] [--bridge FILE]

captions.tsv has the columns file and caption, several rows a file. The pictures of one part of the split
(`lodestone_eval.datasets.plain`) are indexed; a random share of them gets `--each` of its captions but never its last, and
every last caption is a query for its picture. `--words` cuts captions to their first words, because titles are short. The
table gives R@1, R@10 and MAP (of the first 60) for targets with and without a caption, and the change against the text pass
with its 95 % interval (paired bootstrap over pictures). `--bridge` names a bridge that was not trained on the part. Models,
catalog, embedded store, hub and engine are real.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from benchmarks.harness import Benchmark, Figure, Report
from benchmarks.harness.tables import table

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.identity import caption_id
from lodestone.catalog.records import CaptionRecord, ImageRecord, ImageState
from lodestone.config.engines import EngineSettings
from lodestone.config.profiles import PROFILES
from lodestone.config.settings import ModelSettings, QuerySettings
from lodestone.generators.base import Generator
from lodestone.generators.engine_call import Engine
from lodestone.generators.engines.exemplar import Exemplar
from lodestone.generators.engines.prior import Prior
from lodestone.generators.engines.prior_weights import PriorWeights
from lodestone.generators.hub import Hub
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.query.encoder import LocalEncoder
from lodestone.query.engine import QueryEngine
from lodestone.query.guides.captions import CaptionRule
from lodestone.query.guides.search import FusionSettings
from lodestone.query.retrieving.learned_stages import LearnedModels
from lodestone.query.weighting.choice import make_weigher
from lodestone.spaces.registry import make_space
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import PointBatch
from lodestone.store.edge.store import EdgeStore
from lodestone.text_encoders.base import TextEncoder
from lodestone.text_encoders.registry import make_text_encoder
from lodestone.training.prior import fit_space
from lodestone_eval.compare import compare_paired
from lodestone_eval.datasets.plain import split_by_hash
from lodestone_schemas.api import SearchRequest
from lodestone_schemas.collections import CAPTION_FIELDS, CollectionSpec
from research.fits.quality import load, part, read_table

PROFILE = PROFILES["embedded"]
CAPTIONS = "captions-bench"
DEPTH = 60  # NEEDLE's n


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to answer: its generators, and the fitted numbers that differ from the defaults."""

    generators: tuple[str, ...]
    captions: CaptionRule | None = None
    fusion: FusionSettings | None = None


SILENT = CaptionRule(weight=0.0)
MODES = {
    "exemplars alone": Mode(("exemplar",), captions=SILENT),
    "what captions say alone": Mode(("exemplar",), fusion=FusionSettings(guide_weight=0.0)),
    "both (default)": Mode(("exemplar",)),
    "both, no benefit of the doubt": Mode(("exemplar",), captions=CaptionRule(doubt=0.0)),
    "prior": Mode(("prior",)),
}


class Bench:
    """One part's pictures in every space, and their captions; `caption` gives captions to some of them."""

    def __init__(self, home: Path, args: argparse.Namespace) -> None:
        learnt = {} if args.bridge is None else {"bridge": args.bridge}
        context = ModelContext(ModelCache(ModelSettings().cache), threads=1, artifacts=learnt)
        rows = read_table(args.captions, "caption")
        split = split_by_hash(name for name, _ in rows)
        parts = {"train": split.train, "validation": split.validation, "test": split.test}
        collection = load(context, args.cache or home, "captions", rows=rows, folder=args.images, names=sum(parts.values(), ()))
        start = sum(len(parts[name]) for name in parts if list(parts).index(name) < list(parts).index(args.part))
        self.names = parts[args.part]
        here = part(collection, np.arange(start, start + len(self.names)))
        train = part(collection, np.arange(len(split.train)))
        place = {name: row for row, name in enumerate(self.names)}
        self.captions: list[list[str]] = [[] for _ in self.names]
        for name, text in rows:
            if name in place:
                self.captions[place[name]].append(text)
        self.projections = {name: make_space(name, context) for name in PROFILE.spaces}
        self.text: TextEncoder = make_text_encoder(PROFILE.text_encoder, context)
        self.text.warm_up()
        self.catalog = Catalog.open(home / "catalog.sqlite")
        self.store = EdgeStore(home / "store", aliases=JsonAliasTable(home / "aliases.json"))
        corpus = self.catalog.ensure_corpus("photos")
        root = self.catalog.ensure_root(corpus.corpus_id, "/photos")
        minted = self.catalog.mint_image_ids(corpus.corpus_id, root.name, self.names)
        self.ids = [minted[name] for name in self.names]
        self.catalog.add_images(
            [
                ImageRecord(self.ids[row], corpus.corpus_id, root.root_id, name, f"{row:064x}", 1, 0, ImageState.ACTIVE)
                for row, name in enumerate(self.names)
            ]
        )
        priors = {}
        for name, projection in self.projections.items():
            projection.warm_up()
            self.store.create(CollectionSpec(projection.collection, projection.dim))
            self.store.set_alias(name, projection.collection)
            self.store.upsert(
                projection.collection, PointBatch(self.ids, projection.project(here.outputs), [{}] * len(self.ids))
            )
            priors[projection.collection] = fit_space(train.texts, projection.project(train.outputs)[train.owner])
        self.generators: dict[str, Generator] = {
            "exemplar": Exemplar(self.store, self.catalog),
            "prior": Prior(PriorWeights(priors)),
        }

    def caption(self, had: np.ndarray, *, each: int, words: int) -> None:
        """Give the pictures of `had` their first `each` captions, never their last; cut them to `words` if that is not 0."""
        texts_of = {
            self.ids[row]: list(dict.fromkeys(_cut(text, words) for text in self.captions[row][:-1][:each])) if had[row] else []
            for row in range(len(self.names))
        }
        rows = [(image_id, text) for image_id, texts in texts_of.items() for text in texts]
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
        records = {image_id: [CaptionRecord(image_id, "table", text) for text in texts] for image_id, texts in texts_of.items()}
        self.catalog.set_captions(records, sources=["table"])

    def engine(self, mode: Mode, *, learnt: LearnedModels | None = None) -> QueryEngine:
        """Return an engine over the collection as it is captioned now, with what use has taught."""
        engines = {name: Engine(name, EngineSettings(kind=name), self.generators[name]) for name in mode.generators}
        return QueryEngine(
            store=self.store,
            catalog=self.catalog,
            encoder=LocalEncoder(projections=self.projections, text_encoders={self.text.name: self.text}, backbones={}),
            profile=replace(PROFILE, generators=mode.generators),
            settings=QuerySettings(deadline_ms=600_000),
            hub=Hub(engines),
            weigher=make_weigher(self.projections),
            fusion=mode.fusion,
            captions=mode.captions,
            learnt=learnt,
        )

    async def ranks(self, mode: Mode, *, guides: int | None = None) -> np.ndarray:
        """Ask every last caption; return (pictures,) rank of its picture, from 1, infinite where it is not among the first."""
        engine, ranks = self.engine(mode), []
        for image_id, texts in zip(self.ids, self.captions, strict=True):
            response = await engine.answer(SearchRequest(query=texts[-1], limit=DEPTH, guides=guides))
            ranks.append(next((hit.rank for hit in response.hits if hit.image_id == image_id), np.inf))
        return np.array(ranks, float)


METRICS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "R@1": lambda ranks: (ranks <= 1).astype(float),
    "R@10": lambda ranks: (ranks <= 10).astype(float),
    "MAP": lambda ranks: 1 / ranks,
}


def _cut(text: str, words: int) -> str:
    return " ".join(text.split()[:words]) if words else text


def _draw(count: int, share: float, seed: int) -> np.ndarray:
    had = np.zeros(count, bool)
    had[np.random.default_rng(seed).permutation(count)[: max(1, round(share * count))]] = True
    return had


def _row(metric: str, plain: np.ndarray, results: Sequence[tuple[np.ndarray, np.ndarray]], names: Sequence[str]) -> list[str]:
    cells = [metric]
    value = METRICS[metric]
    for captioned in (True, False):
        before = np.concatenate([value(plain)[had == captioned] for _, had in results])
        after = np.concatenate([value(ranks)[had == captioned] for ranks, had in results])
        groups = [name for _, had in results for name, has in zip(names, had, strict=True) if has == captioned]
        if not groups:
            cells += ["-", "-"]
            continue
        paired = compare_paired(before, after, groups)
        change = paired.difference
        cells += [f"{paired.after:.3f}", f"{change.mean:+.4f} [{change.low:+.4f}, {change.high:+.4f}]"]
    return cells


def measure(options: argparse.Namespace, report: Report) -> None:
    """Index the part, and ask every query in every mode."""
    header: tuple[str, ...] = ("share", "answer", "metric", "captioned", "change", "not captioned", "change")
    rows: list[tuple[str, ...]] = [header]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options)
        count = len(bench.names)
        plain = asyncio.run(bench.ranks(MODES["both (default)"], guides=0))
        for share in options.shares:
            draws = [_draw(count, share, seed) for seed in range(options.seeds if share < 1 else 1)]
            results: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {"text pass": [(plain, had) for had in draws]}
            for had in draws:
                bench.caption(had, each=options.each, words=options.words)
                for name in options.only:
                    results.setdefault(name, []).append((asyncio.run(bench.ranks(MODES[name])), had))
            for name, many in results.items():
                parts = [(f"{share:.0%}, together", many), *((f"{share:.0%}, draw {n}", [one]) for n, one in enumerate(many))]
                rows += [
                    (where, name, *_row(metric, plain, drawn, bench.names))
                    for where, drawn in (parts if name != "text pass" else parts[:1])
                    for metric in METRICS
                ]
                report.record("R@10", [float((ranks <= 10).mean()) for ranks, _ in many], case=f"{name}, {share:.0%} captioned")
            report.progress(table([header, *rows[1:]]))
        bench.store.close()
        bench.catalog.close()
    report.table(rows)
    report.text(f"{count} pictures, one query each; spaces {', '.join(PROFILE.spaces)}.")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--part", choices=["validation", "test"], default="validation")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1, 0.5])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--each", type=int, default=4)
    parser.add_argument("--words", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=list(MODES), default=list(MODES))
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--bridge", type=Path)


BENCHMARK = Benchmark(
    name="exemplars",
    about=__doc__,
    figures=(Figure("R@10", "share", peer="the text pass alone"),),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
