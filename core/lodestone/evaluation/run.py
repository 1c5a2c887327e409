"""How does one evaluation go? Every query asked in every configuration, over a benchmark that is indexed, and measured.

A query in words is asked among all pictures of the set, for n results. A pair is asked as two queries among its two pictures
alone. Queries have time enough for their guides: quality is measured here, and latency is told beside it.
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
from lodestone.evaluation.ask import CONCURRENCY, EvaluatedAnswer, EvaluatedSystem, Told, ask_all
from lodestone.evaluation.baselines import LanguageModel, Rewriter, match_captions
from lodestone.evaluation.configurations import TEXT, Configuration, check_names, make_configurations
from lodestone.evaluation.datasets.base import UNASKABLE, EvalSet
from lodestone.evaluation.measured import Measured, measure_pairs, measure_ranking, query_rows, result_of
from lodestone.evaluation.needle_metrics import RESULTS
from lodestone.evaluation.report import ConfigurationResult, EvalReport, compare_configurations
from lodestone.evaluation.selection import QuerySelection
from lodestone_schemas.api import MAX_LIMIT, SearchFilters, SearchRequest

if TYPE_CHECKING:
    from lodestone.config.settings import Settings
    from lodestone.evaluation.staging import IndexedSet
    from lodestone.home.runtime import Runtime

_DEADLINE_MS: Final = 600_000
_REWRITES: Final = "evaluation-rewrites.json"


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """How to evaluate.

    Attributes:
        selection: What of the benchmark is used; already applied, kept for the report.
        run: Names of configurations; empty for all.
        ablate: Parts to leave out of the full loop, one at a time.
        judged: Pass over results that nobody looked at for a query, where the benchmark says so (LVIS).
        llm: Rewrites queries; None: that baseline is not run.
        concurrency: Queries at once.
        deadline_ms: Time for one query.
        seed: Of the guides.
        temporary: Whether the home goes away afterwards.

    Raises:
        UnknownNameError: no such configuration or part.
    """

    selection: QuerySelection = field(default_factory=QuerySelection)
    run: tuple[str, ...] = ()
    ablate: tuple[str, ...] = ()
    judged: bool = False
    llm: LanguageModel | None = None
    concurrency: int = CONCURRENCY
    deadline_ms: int = _DEADLINE_MS
    seed: int = 0
    temporary: bool = False

    def __post_init__(self) -> None:
        check_names(self.run, self.ablate)  # now, not once the pictures are indexed


def evaluation_settings(settings: Settings, home: Path, *, temporary: bool) -> Settings:
    """The user's settings over the evaluation's home: no query leaves a trace for the next, and no other home is touched.

    Args:
        settings: The user's.
        home: The evaluation's.
        temporary: The home goes away afterwards: nothing of it may be on a server.
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
    told: Told | None = None,
) -> EvalReport:
    """Ask everything and measure.

    Args:
        runtime: The evaluation's home, with settings of `evaluation_settings`.
        evalset: The selected part of the benchmark.
        indexed: Its pictures in the home.
        options: How to evaluate.
        engine: Answers; None: the home's own query engine.
        told: Told of progress.

    Raises:
        UnknownNameError: no such configuration or part.
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
    )
    job = _Job(runtime, evalset, indexed, options, told)
    measured = asyncio.run(job.run(configurations, engine))
    rows = query_rows(evalset, measured[TEXT], indexed.described)
    results = [result_of(one, measured.get(one.name), rows) for one in configurations]
    by_name = {one.name: one for one in results if one.skipped is None}
    metric = "map" if evalset.kind == "ranking" else "pairing"
    comparisons = [
        comparison
        for one in results
        if one.skipped is None and one.against in by_name
        for comparison in compare_configurations(rows, by_name[one.against], one, metric=metric)
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
        selection=asdict(options.selection) | {"judged": options.judged, "guide_seed": options.seed},
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
        notes=[*job.notes, *_idle_gates(results)],
    )


@dataclass(slots=True)
class _Job:
    runtime: Runtime
    evalset: EvalSet
    indexed: IndexedSet
    options: EvalOptions
    told: Told | None
    notes: list[str] = field(default_factory=list)

    async def run(self, configurations: Sequence[Configuration], engine: EvaluatedSystem | None) -> dict[str, Measured]:
        """Configuration -> what it gave, of those that are run."""
        if engine is None:
            own = self.runtime.engine()
            await own.warm_up()
            engine = own
        measured = {}
        for one in configurations:
            if one.skipped is None:
                measured[one.name] = await self._measure(one, engine)
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
            concurrency=self.options.concurrency,
            told=self._teller(configuration.name, len(requests)),
        )
        if self.evalset.kind == "pairs":
            return measure_pairs(self.evalset, answers)
        return measure_ranking(self.evalset.queries, answers, judged=self.options.judged)

    async def _texts(self, configuration: Configuration) -> list[str]:
        """What is searched for, query by query; two for each pair."""
        texts = [query.text for query in self.evalset.queries] + [
            caption for pair in self.evalset.pairs for caption in pair.captions
        ]
        if configuration.method != "rewrite" or self.options.llm is None:
            return texts
        rewriter = Rewriter(self.options.llm, self.runtime.home.path / _REWRITES)
        rewritten = await rewriter.rewrite(
            texts,
            concurrency=self.options.concurrency,
            told=self._teller(f"{configuration.name}: asking the model", len(texts)),
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
            return [
                SearchRequest(query=text, limit=2, filters=SearchFilters(corpora=corpora, path_prefix=folder), **common)
                for text, folder in zip(texts, folders, strict=True)
            ]
        deeper = self.options.judged and any(query.judged is not None for query in self.evalset.queries)
        filters = SearchFilters(corpora=corpora)
        limit = MAX_LIMIT if deeper else RESULTS
        return [SearchRequest(query=text, limit=limit, filters=filters, **common) for text in texts]

    def _match_captions(self) -> list[EvaluatedAnswer]:
        evalset = self.evalset
        pool = evalset.captions if self.options.selection.captioned is None else evalset.sidecars
        here = set(self.indexed.names.values())
        encoder = self.runtime.text_encoder
        encoder.warm_up(threads=self.runtime.settings.models.threads)
        return match_captions(
            evalset.queries,
            {name: texts for name, texts in pool.items() if name in here},
            encoder,
            told=self._teller("captions", len(evalset.queries)),
        )

    def _teller(self, stage: str, total: int) -> Callable[[int], None]:
        told = self.told
        return (lambda _: None) if told is None else (lambda done: told(stage, done, total))


def _idle_gates(results: Sequence[ConfigurationResult]) -> list[str]:
    """Say where the gate was asked for and decided nothing: a configuration without it is then the same one."""
    asked = [one for one in results if one.skipped is None and one.request.get("gate") and one.request.get("guides") != 0]
    idle = [one.name for one in asked if one.simple is None]
    return (
        [f"the gate decided nothing in {', '.join(idle)}: no model of it is fitted, or no search method has a say"]
        if idle
        else []
    )


def _findable(evalset: EvalSet, indexed: IndexedSet) -> EvalSet:
    """Take out what could not be indexed: a picture that cannot be read is not in the collection."""
    here = frozenset(indexed.names.values())
    skipped = Counter(evalset.skipped)
    if lost := len(evalset.pictures.keys() - here):
        skipped["pictures that cannot be used"] += lost
    queries = tuple(
        replace(query, relevant=query.relevant & here, judged=None if query.judged is None else query.judged & here)
        for query in evalset.queries
    )
    pairs = tuple(pair for pair in evalset.pairs if here.issuperset(pair.pictures))
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
    """What an answer depends on; nothing of credentials."""
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
