"""Runner of an evaluation: every query in every configuration, over an indexed benchmark, measured.

A text query searches all pictures of the set, for n results. A pair becomes two queries that search only its two pictures, and
the same two queries over all pictures (for MRR). The deadline leaves enough time for guides, because quality is measured here;
latency is reported beside it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lodestone import __version__
from lodestone.errors import InvalidRequestError
from lodestone_eval.ask import CONCURRENCY, EvaluatedAnswer, EvaluatedSystem, QueryProgressCallback, ask_all
from lodestone_eval.baselines import LanguageModel, Rewriter, match_captions
from lodestone_eval.configurations import TEXT, Configuration, check_names, make_configurations
from lodestone_eval.datasets.base import UNASKABLE, EvalSet
from lodestone_eval.measured import (
    Measured,
    gate_scatter,
    measure_pairs,
    measure_ranking,
    query_rows,
    result_of,
    unguided_notes,
)
from lodestone_eval.needle_engines import NeedleEngines, needle_setup
from lodestone_eval.needle_metrics import RESULTS
from lodestone_eval.needle_variants import ETA
from lodestone_eval.report import ConfigurationResult, EvalReport, compare_configurations
from lodestone_eval.selection import QuerySelection
from lodestone_schemas.api import MAX_LIMIT, SearchFilters, SearchRequest

if TYPE_CHECKING:
    from lodestone.config.settings import Settings
    from lodestone.home.runtime import Runtime
    from lodestone_eval.staging import IndexedSet

_DEADLINE_MS: Final = 600_000
_REWRITES: Final = "evaluation-rewrites.json"


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """Holds the options of an evaluation.

    Attributes:
        selection: Part of the benchmark that is used; already applied, kept for the report.
        run: Names of configurations; empty for all.
        ablate: Parts to leave out, one at a time.
        judged: Whether to ignore results that nobody judged for a query, where the benchmark lists them (LVIS).
        llm: Language model that rewrites queries; without one that baseline is not run.
        concurrency: Number of queries in progress at once.
        deadline_ms: Time for one query, in milliseconds.
        seed: Seed of the guides.
        eta: Learning rate of `needle-trust`.
        temporary: Whether the home is deleted afterwards.

    Raises:
        UnknownNameError: there is no such configuration or part.
    """

    selection: QuerySelection = field(default_factory=QuerySelection)
    run: tuple[str, ...] = ()
    ablate: tuple[str, ...] = ()
    judged: bool = False
    llm: LanguageModel | None = None
    concurrency: int = CONCURRENCY
    deadline_ms: int = _DEADLINE_MS
    seed: int = 0
    eta: float = ETA
    temporary: bool = False

    def __post_init__(self) -> None:
        check_names(self.run, self.ablate)  # checked before the pictures are indexed


def evaluation_settings(settings: Settings, home: Path, *, temporary: bool) -> Settings:
    """Return the user's settings for the evaluation's home, where no query affects the next and no other home is changed.

    Args:
        settings: The user's settings.
        home: The evaluation's home.
        temporary: Whether the home is deleted afterwards; if so, nothing of it may be on a server.
    """
    store = settings.store.model_copy(update={"kind": "edge"}) if temporary else settings.store
    return settings.model_copy(
        update={
            "home": home.expanduser().absolute(),
            "catalog_url": None,
            "store": store,
            "index": settings.index.model_copy(update={"follow_symlinks": True}),
            "query": settings.query.model_copy(update={"history": 0}),
            "tags": settings.tags.model_copy(update={"implicit": False}),
        }
    )


def evaluate(
    runtime: Runtime,
    evalset: EvalSet,
    indexed: IndexedSet,
    options: EvalOptions,
    *,
    engine: EvaluatedSystem | None = None,
    report_progress: QueryProgressCallback | None = None,
) -> EvalReport:
    """Run all queries in all configurations, and return the report.

    Args:
        runtime: The evaluation's home, with settings of `evaluation_settings`.
        evalset: The selected part of the benchmark.
        indexed: Its pictures in the home.
        options: Options of the evaluation.
        engine: The engine to measure; None for the home's own query engine.
        report_progress: Progress callback.

    Raises:
        UnknownNameError: there is no such configuration or part.
        InvalidRequestError: none of the right pictures could be indexed.
        LodestoneError: all queries of a configuration failed.
    """
    evalset = _findable(evalset, indexed)
    configurations = make_configurations(
        options.run,
        options.ablate,
        spaces=runtime.profile.spaces,
        no_captions=_no_captions(evalset, options.selection),
        no_rewriting=None if options.llm else "no language model is given (--llm)",
        needle=needle_setup(runtime),
        eta=options.eta,
        pairs=evalset.kind == "pairs",
    )
    job = _Job(runtime, evalset, indexed, options, report_progress)
    measured = asyncio.run(job.run(configurations, engine))
    rows = query_rows(evalset, measured[TEXT], indexed.described)
    results = [result_of(configuration, measured.get(configuration.name), rows) for configuration in configurations]
    by_name = {result.name: result for result in results if result.skipped is None}
    metrics = ("map", "hit@1", "hit@10") if evalset.kind == "ranking" else ("pairing",)
    comparisons = [
        comparison
        for result in results
        if result.skipped is None and result.against in by_name
        for metric in metrics
        for comparison in compare_configurations(rows, by_name[result.against], result, metric=metric)
    ]
    return EvalReport(
        created_at=datetime.now(UTC),
        lodestone=__version__,
        benchmark=evalset.name,
        kind=evalset.kind,
        split=evalset.split,
        pictures=len(indexed.names),
        gallery=_digest(indexed.names.values(), indexed.described),
        described=len(indexed.described),
        skipped=dict(evalset.skipped),
        selection=asdict(options.selection) | {"judged": options.judged, "guide_seed": options.seed, "eta": options.eta},
        profile=runtime.profile.name,
        models=_models(runtime),
        settings=_settings(runtime.settings),
        home="temporary" if options.temporary else str(runtime.home.path),
        index={
            "embedded": indexed.report.counts.get("embedded", 0),
            "failed": indexed.report.counts.get("failed", 0),
            "seconds": round(indexed.report.seconds, 3),
        },
        queries=rows,
        configurations=results,
        comparisons=comparisons,
        gate=gate_scatter(evalset, measured, measured[TEXT]),
        notes=[*job.notes, *_idle_gates(results), *unguided_notes(configurations, measured)],
    )


@dataclass(slots=True)
class _Job:
    runtime: Runtime
    evalset: EvalSet
    indexed: IndexedSet
    options: EvalOptions
    report_progress: QueryProgressCallback | None
    notes: list[str] = field(default_factory=list)

    async def run(self, configurations: Sequence[Configuration], engine: EvaluatedSystem | None) -> dict[str, Measured]:
        """Return the results of the configurations that are run, by name."""
        needle_engines = NeedleEngines(self.runtime, self.evalset.queries, self.indexed.names, given=engine)
        if engine is None:
            own_engine = self.runtime.engine()
            await own_engine.warm_up()
            engine = own_engine
        measured = {}
        try:
            for configuration in configurations:
                if configuration.skipped is None:
                    variant = configuration.needle
                    system = engine if variant is None else await needle_engines.system(variant)
                    measured[configuration.name] = await self._measure(configuration, system)
        finally:
            await needle_engines.close()
        return measured

    async def _measure(self, configuration: Configuration, engine: EvaluatedSystem) -> Measured:
        if configuration.method == "captions":
            answers = await asyncio.to_thread(self._match_captions)
            return measure_ranking(self.evalset.queries, answers, judged=self.options.judged)
        texts = await self._texts(configuration)
        requests = self._requests(configuration, texts)
        answers = await ask_all(
            engine,
            requests,
            names=self.indexed.names,
            concurrency=1 if configuration.learns else self.options.concurrency,
            report_progress=self._progress_for(configuration.name, len(requests)),
        )
        if self.evalset.kind == "pairs":
            return measure_pairs(self.evalset, answers)
        return measure_ranking(self.evalset.queries, answers, judged=self.options.judged)

    async def _texts(self, configuration: Configuration) -> list[str]:
        """Return the texts to search for, one per query and two per pair."""
        texts = [query.text for query in self.evalset.queries] + [
            caption for pair in self.evalset.pairs for caption in pair.captions
        ]
        if configuration.method != "rewrite" or self.options.llm is None:
            return texts
        rewriter = Rewriter(self.options.llm, self.runtime.home.path / _REWRITES)
        rewritten = await rewriter.rewrite(
            texts,
            concurrency=self.options.concurrency,
            report_progress=self._progress_for(f"{configuration.name}: asking the model", len(texts)),
        )
        if rewriter.failures:
            reasons = ", ".join(f"{count} x {reason}" for reason, count in sorted(rewriter.failures.items()))
            self.notes.append(f"rewriting failed for some queries, which were asked as they are: {reasons}")
        return [rewritten[text] for text in texts]

    def _requests(self, configuration: Configuration, texts: Sequence[str]) -> list[SearchRequest]:
        corpora = [self.indexed.corpus]
        common = {"deadline_ms": self.options.deadline_ms, "seed": self.options.seed, **configuration.request}
        if self.evalset.kind == "pairs":
            folders = [pair.pair_id for pair in self.evalset.pairs for _ in pair.captions]
            between_two = [
                SearchRequest(query=text, limit=2, filters=SearchFilters(corpora=corpora, path_prefix=folder), **common)
                for text, folder in zip(texts, folders, strict=True)
            ]
            among_all = SearchFilters(corpora=corpora)
            return between_two + [SearchRequest(query=text, limit=RESULTS, filters=among_all, **common) for text in texts]
        deeper = self.options.judged and any(query.judged is not None for query in self.evalset.queries)
        filters = SearchFilters(corpora=corpora)
        limit = MAX_LIMIT if deeper else RESULTS
        if configuration.learns:
            topics = [query.label or self.evalset.name for query in self.evalset.queries]  # trust is learnt for each topic
            return [
                SearchRequest(query=text, limit=limit, filters=filters, topic=topic, **common)
                for text, topic in zip(texts, topics, strict=True)
            ]
        return [SearchRequest(query=text, limit=limit, filters=filters, **common) for text in texts]

    def _match_captions(self) -> list[EvaluatedAnswer]:
        evalset = self.evalset
        pool = evalset.captions if self.options.selection.captioned is None else evalset.sidecars
        indexed_names = set(self.indexed.names.values())
        encoder = self.runtime.text_encoder
        encoder.warm_up(threads=self.runtime.settings.models.threads)
        return match_captions(
            evalset.queries,
            {name: texts for name, texts in pool.items() if name in indexed_names},
            encoder,
            report_progress=self._progress_for("captions", len(evalset.queries)),
        )

    def _progress_for(self, stage: str, total: int) -> Callable[[int], None]:
        report_progress = self.report_progress
        return (lambda _: None) if report_progress is None else (lambda done: report_progress(stage, done, total))


def _idle_gates(results: Sequence[ConfigurationResult]) -> list[str]:
    """Return a note where the gate was requested and decided nothing.

    A configuration without the gate then gives the same results.
    """
    gated = [
        result
        for result in results
        if result.skipped is None and result.request.get("gate") and result.request.get("guides") != 0
    ]
    idle = [result.name for result in gated if result.simple is None]
    return (
        [f"the gate decided nothing in {', '.join(idle)}: no model of it is fitted, or no search method has a say"]
        if idle
        else []
    )


def _findable(evalset: EvalSet, indexed: IndexedSet) -> EvalSet:
    """Remove pictures that could not be indexed, and the queries and pairs that have no right picture without them."""
    indexed_names = frozenset(indexed.names.values())
    skipped = Counter(evalset.skipped)
    if lost := len(evalset.pictures.keys() - indexed_names):
        skipped["pictures that cannot be used"] += lost
    queries = tuple(query.among(indexed_names) for query in evalset.queries)
    pairs = tuple(pair for pair in evalset.pairs if indexed_names.issuperset(pair.pictures))
    kept = tuple(query for query in queries if query.relevant)
    if unaskable := len(queries) - len(kept) + len(evalset.pairs) - len(pairs):
        skipped[UNASKABLE] += unaskable
    if not kept and not pairs:
        raise InvalidRequestError(f"{evalset.name}: none of the right pictures can be used", hint="lodestone status --failures")
    return replace(evalset, queries=kept, pairs=pairs, skipped=dict(skipped))


def _no_captions(evalset: EvalSet, selection: QuerySelection) -> str | None:
    if evalset.kind == "pairs":
        return "a pair's captions are its queries"
    if not evalset.captions:
        return "the benchmark has no captions besides its queries"
    if selection.captioned is not None:
        return None if evalset.sidecars else "no picture is indexed with a caption"
    several = any(len(texts) > 1 for texts in evalset.captions.values())
    return None if several else "each picture has one caption, and that is its query"


def _models(runtime: Runtime) -> dict[str, str]:
    versions = {backbone.name: backbone.version for backbone in runtime.backbones()}
    versions[runtime.text_encoder.name] = runtime.text_encoder.version
    return versions | {f"space {name}": projection.collection for name, projection in runtime.projections().items()}


def _settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that an answer depends on, without credentials."""
    return {
        "query": settings.query.model_dump(mode="json"),
        "tags": settings.tags.model_dump(mode="json"),
        "trust": settings.trust.model_dump(mode="json"),
        "generators": {
            name: engine.model_dump(mode="json", include={"kind", "enabled", "priority", "guides", "size", "model"})
            for name, engine in settings.generators.items()
        },
        "store": settings.store.model_dump(mode="json", include={"kind", "build_threshold", "m", "ef", "quantization"}),
    }


def _digest(names: Iterable[str], described: frozenset[str]) -> str:
    lines = sorted(f"{name}\t{name in described}" for name in names)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()[:16]
