"""Gain of the rule that a query of one word puts few pictures first whose captions hold it, paired over the same queries.

    python -m research.studies.caption_words --captions captions.tsv --images DIR [--shares 1 0.5 0.1] [--draws 3]
        [--each 1] [--bounds 0 5 10 20 40] [--scores 15 30] [--cache DIR] [--bridge FILE]

captions.tsv has the columns file and caption, several rows a file. The 500 validation photos of the split
(`lodestone_eval.datasets.plain`) are indexed; a random share of them gets the first `--each` of its captions, and these go
through the real catalog, outbox, store and search of tags. Queries are nouns of the photos' other captions. A noun is a word
that the captions of the training part have between an article and a preposition or verb. Three judgements are given. By `any` a
photo is right whose captions, whichever, hold the noun; so whatever the rule puts first is right. By `unseen` a photo is right
if one of the captions that no photo was indexed with holds it, and by `twice` if two of them do; there, the rule can be wrong.

The bound is the highest number of pictures that the rule puts first: with more, it puts none first. Each query is answered
with and without the rule; which answer counts follows from the bound. The score is what a picture that is put first gets, in
units of the spread of a space's scores. Whole captions are asked as well: their answers must be the same with and without the
rule. `--bridge` names a bridge that was not trained on the photos.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from benchmarks.harness import Benchmark, Figure, Report
from numpy.typing import NDArray

from lodestone.query.retrieving.learned_stages import LearnedModels
from lodestone.retrieval.metrics import average_precision, precision_at, recall_at
from lodestone.retrieval.tag_matches import TagMatches
from lodestone.store.base import Filter
from lodestone.tags.delivery import COLLECTION, deliver
from lodestone.tags.search import TagSearch
from lodestone.tags.terms import content_words
from lodestone_eval.compare import compare_paired
from lodestone_eval.datasets.plain import split_by_hash
from lodestone_schemas.api import SearchRequest
from research.fits.quality import read_table
from research.studies.exemplars import MODES, Bench

DEPTH: Final = 100  # results that are read
ANY_NUMBER: Final = 10_000  # a bound that no word of the photos reaches
BANDS: Final = ((1, 2), (3, 5), (6, 10), (11, 20), (21, 40), (41, ANY_NUMBER))  # numbers of pictures whose captions hold a word
_ARTICLES: Final = frozenset({"a", "an", "the"})
_PARTICLES: Final = """
in on with is are at of from near by through over to into while behind onto during who that wearing holding . ,
"""
_AFTER: Final = frozenset(_PARTICLES.split())
_TOKEN: Final = re.compile(r"[\w']+|[.,]")
_LEAST_TIMES: Final = 2  # that a noun stands between an article and one of the words after it
_LEAST_SHARE: Final = 0.1  # of the word's occurrences


def nouns(captions: Iterable[str]) -> frozenset[str]:
    """Return the words that stand as nouns in captions, case-folded."""
    alone: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for caption in captions:
        words = [word.casefold() for word in _TOKEN.findall(caption)] + ["."]
        total.update(words)
        alone.update(
            word
            for before, word, after in zip(words, words[1:], words[2:], strict=False)
            if before in _ARTICLES and after in _AFTER and word.isalpha() and word not in _AFTER
        )
    return frozenset(word for word, times in alone.items() if times >= _LEAST_TIMES and times >= _LEAST_SHARE * total[word])


class ScoredTags:
    """Search by tags that gives the pictures that one word of captions puts first another score than the usual."""

    def __init__(self, search: TagSearch, score: float) -> None:
        self._search = search
        self._score = score

    def search(self, text: str, collection: str, *, filter_: Filter | None, limit: int) -> TagMatches:
        """Return what the tags of pictures say of a query."""
        matches = self._search.search(text, collection, filter_=filter_, limit=limit)
        scores = dict(zip(matches.found.ids, matches.found.scores.tolist(), strict=True)) | dict.fromkeys(
            matches.named, self._score
        )
        ids = sorted(scores, key=lambda image_id: (-scores[image_id], image_id))
        found = replace(matches.found, ids=tuple(ids), scores=np.array([scores[image_id] for image_id in ids], np.float32))
        return replace(matches, found=found, named=frozenset())


@dataclass(frozen=True, slots=True)
class Truth:
    """Which pictures are right for each query.

    Attributes:
        queries: The nouns.
        judgements: Name -> (queries, pictures) whether the picture is right.
    """

    queries: tuple[str, ...]
    judgements: Mapping[str, NDArray[np.bool_]]

    @classmethod
    def of(cls, captions: Sequence[Sequence[str]], known: frozenset[str], *, each: int) -> Truth:
        """Ask every noun that is in the captions that no picture is indexed with, and judge it.

        Args:
            captions: Captions of every picture.
            known: Nouns.
            each: Number of captions that pictures are indexed with.
        """
        words = [[content_words(text) for text in texts] for texts in captions]
        others = {word.casefold() for texts in captions for text in texts[each:] for word in _TOKEN.findall(text)}
        nouns_by_stem = {stem: noun for noun in sorted(known & others, reverse=True) for stem in content_words(noun)}
        stems = sorted(nouns_by_stem)  # of two forms of one noun, the first is asked

        def times(first: int) -> NDArray[np.int64]:
            return np.array([[sum(stem in said for said in held[first:]) for held in words] for stem in stems])

        judgements = {"any": times(0) >= 1, "unseen": times(each) >= 1, "twice": times(each) >= 2}
        return cls(tuple(nouns_by_stem[stem] for stem in stems), judgements)


Rankings = NDArray[np.int64]  # (queries, DEPTH) rows of pictures, best first; -1 where there are no more


async def rankings(bench: Bench, queries: Sequence[str], tags: TagSearch | ScoredTags) -> Rankings:
    """Answer queries as users get them by default."""
    engine = bench.engine(MODES["both (default)"], learnt=LearnedModels(tags=tags))
    place = {image_id: row for row, image_id in enumerate(bench.ids)}
    answers = np.full((len(queries), DEPTH), -1)
    for row, query in enumerate(queries):
        response = await engine.answer(SearchRequest(query=query, limit=DEPTH))
        answers[row, : len(response.hits)] = [place[hit.image_id] for hit in response.hits]
    return answers


def metrics(answers: Rankings, truth: NDArray[np.bool_]) -> dict[str, NDArray[np.float64]]:
    """Return metric -> (queries,) values."""
    right = np.take_along_axis(truth, np.maximum(answers, 0), axis=1) & (answers >= 0)
    totals = truth.sum(1)
    return {
        "MAP": average_precision(right, totals=np.minimum(totals, DEPTH)),
        "P@1": precision_at(right, 1),
        "P@10": precision_at(right, 10),
        "R@10": recall_at(right, 10, totals=totals),
    }


@dataclass(frozen=True, slots=True)
class Answered:
    """Answers of one home.

    Attributes:
        held: (queries,) number of pictures whose captions hold the word.
        without: Answers without the rule.
        scored: Score -> answers with the rule, whatever the number.
    """

    held: NDArray[np.int64]
    without: Rankings
    scored: dict[float, Rankings]

    def bounded(self, bound: int, score: float) -> Rankings:
        """Return the answers with the rule where at most `bound` pictures are put first."""
        return np.where((self.held <= bound)[:, None], self.scored[score], self.without)


def _answer(bench: Bench, queries: Sequence[str], scores: Sequence[float]) -> Answered:
    every = TagSearch(bench.store, few=ANY_NUMBER)
    held = np.array([len(every.search(query, COLLECTION, limit=DEPTH).named) for query in queries])
    asked = np.flatnonzero(held)  # the rule changes nothing for the others
    some = [queries[int(row)] for row in asked]

    def answers(tags: TagSearch | ScoredTags) -> Rankings:
        found = np.full((len(queries), DEPTH), -1)
        found[asked] = asyncio.run(rankings(bench, some, tags))
        return found

    return Answered(
        held, answers(TagSearch(bench.store, few=0)), {score: answers(ScoredTags(every, score)) for score in scores}
    )


def _change(
    homes: Sequence[Answered], truth: Truth, judgement: NDArray[np.bool_], *, bound: int, score: float
) -> list[str] | None:
    """Return the cells of one row, over the queries whose word a caption holds; None where there are none."""
    some = np.concatenate([(home.held > 0) & judgement.any(1) for home in homes])
    if not some.any():
        return None
    groups = [query for query, is_asked in zip(truth.queries * len(homes), some, strict=True) if is_asked]
    before = [metrics(home.without, judgement) for home in homes]
    after = [metrics(home.bounded(bound, score), judgement) for home in homes]
    cells = []
    for metric in before[0]:
        first, second = (np.concatenate([one[metric] for one in answers])[some] for answers in (before, after))
        paired = compare_paired(first, second, groups)
        change = paired.difference
        cells.append(f"{paired.after:.3f}, {change.mean:+.3f} [{change.low:+.3f}, {change.high:+.3f}]")
    return cells


def measure(options: argparse.Namespace, report: Report) -> None:
    """Index the photos, and ask every noun with and without the rule."""
    rows = read_table(options.captions, "caption")
    train = frozenset(split_by_hash(name for name, _ in rows).train)
    known = nouns(caption for name, caption in rows if name in train)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options)
        truth = Truth.of(bench.captions, known, each=options.each)
        report.text(f"{len(bench.names)} pictures; {len(truth.queries)} nouns; spaces {', '.join(bench.projections)}")
        for share in options.shares:
            homes = []
            for seed in range(options.draws if share < 1 else 1):
                had = np.zeros(len(bench.names), bool)
                had[np.random.default_rng(seed).permutation(len(had))[: round(share * len(had))]] = True
                bench.caption(had, each=options.each, words=0)
                deliver(bench.catalog, bench.store)
                homes.append(_answer(bench, truth.queries, options.scores))
            _report(f"{share:.0%} with {options.each} captions", homes, truth, options, report)
            whole = [texts[-1] for texts in bench.captions[:: options.every]]
            same = [asyncio.run(rankings(bench, whole, TagSearch(bench.store, few=few))).tolist() for few in (0, ANY_NUMBER)]
            changed = sum(one != other for one, other in zip(*same, strict=True))
            report.text(f"whole captions: {changed} of {len(whole)} are answered otherwise with the rule")
        bench.store.close()
        bench.catalog.close()


def _report(case: str, homes: Sequence[Answered], truth: Truth, options: argparse.Namespace, report: Report) -> None:
    held = np.concatenate([home.held for home in homes])
    report.text(f"{case}: {np.count_nonzero(held)} of {len(held)} queries have a word that captions hold")
    header = ("judged by", "rule", "queries", "MAP", "P@1", "P@10", "R@10")
    table: list[Sequence[str]] = [header]
    for judged, judgement in truth.judgements.items():
        for score in options.scores:
            for bound in (*options.bounds, ANY_NUMBER):
                if cells := _change(homes, truth, judgement, bound=bound, score=score):
                    name = "any number" if bound == ANY_NUMBER else f"at most {bound}"
                    asked = sum(np.count_nonzero((home.held > 0) & judgement.any(1)) for home in homes)
                    table.append((judged, f"{name}, score {score:g}", str(asked), *cells))
        for low, high in BANDS:
            banded = [replace(home, held=np.where((home.held >= low) & (home.held <= high), home.held, 0)) for home in homes]
            if cells := _change(banded, truth, judgement, bound=ANY_NUMBER, score=options.scores[0]):
                number = sum(np.count_nonzero((home.held > 0) & judgement.any(1)) for home in banded)
                table.append((judged, f"captions that hold it: {low} to {high}", str(number), *cells))
    report.table(table)
    for bound in options.bounds:
        answers = [metrics(home.bounded(bound, options.scores[0]), truth.judgements["unseen"])["MAP"] for home in homes]
        values = [float(found[home.held > 0].mean()) for home, found in zip(homes, answers, strict=True)]
        report.record("MAP of nouns", values, case=f"{case}, at most {bound}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--part", choices=["validation"], default="validation")
    parser.add_argument("--shares", type=float, nargs="+", default=[1.0, 0.5, 0.1])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--each", type=int, default=1)
    parser.add_argument("--bounds", type=int, nargs="+", default=[0, 5, 10, 20, 40])
    parser.add_argument("--scores", type=float, nargs="+", default=[15.0, 30.0])
    parser.add_argument("--every", type=int, default=5, help="of the whole captions, every which one is asked")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--bridge", type=Path)


BENCHMARK = Benchmark(
    name="caption_words",
    about=__doc__,
    figures=(Figure("MAP of nouns", "share", peer="the same without the rule: at most 0"),),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
