"""Composed queries on captioned photos: "like this picture, but <word>", judged by captions that are not indexed.

    python -m research.studies.composed --captions FILE --images DIR [--bridge FILE] [--part test] [--queries 1500]
        [--cache DIR]

FILE has the columns file and caption. The photos of one part of `lodestone_eval.datasets.plain` are indexed; `--bridge` names a
bridge that was trained on the first part alone. Two captions of each photo are indexed, or none; the other three judge. A query
is a photo and a word that none of its five captions has. Right are the photos of which two of the judging captions have the
word, and one has at least two of the words that the judging captions of the query's photo agree on. Words of fewer than four
photos and queries with more than ten right answers are left out, as are words that say nothing (`STOP`).

The share of the right photos among the first ten is compared with that of the picture alone, of the words alone (with guides,
as searches in words are answered), and of the plain sum of the cosines of picture and words, in the bridge and, where captions
are indexed, with the nearest caption. Two more answers do without a composed query: the picture said in words (its nearest
labels and caption) with the word behind them, and a delta in the bridge (picture + word - labels). The same queries asked as
"change it to <word>" and "remove not-<word>" are answered understood and literally. Intervals are by bootstrap over the
queries' photos. The weights and the rule were chosen on the validation part.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, get_args

import numpy as np
from benchmarks.harness import Benchmark, Figure, Report

from lodestone.config.compositions import DEFAULT_COMPOSITION, Rule, choose_composition
from lodestone.config.settings import QuerySettings
from lodestone.query.asking.tree import Compose, Image, Text
from lodestone.query.encoder import LocalEncoder
from lodestone.query.engine import QueryEngine
from lodestone.query.weighting.choice import make_weigher
from lodestone.query.words.phrases import Change, change_of
from lodestone.services.composed_queries import USUAL
from lodestone.spaces.names import BRIDGE, LABELS
from lodestone_eval.compare import compare_paired
from lodestone_schemas.api import SearchOptions, SearchRequest
from research.studies.exemplars import CAPTIONS, MODES, PROFILE, Bench

if TYPE_CHECKING:
    from lodestone.spaces.labels import LabelSpace

RULES: Final[tuple[Rule, ...]] = get_args(Rule)
TOP: Final = 10
INDEXED: Final = 2  # captions of each photo
FEWEST_PHOTOS: Final = 4
MOST_RIGHT: Final = 10
NEAREST_LABELS: Final = 3  # that say what a photo shows
PHRASES: Final = ("change it to {}", "remove not-{}")


def words_of(text: str) -> set[str]:
    """Return the words of a caption."""
    return set(re.findall(r"[a-z]+", text.lower()))


STOP: Final = words_of(
    "a an the of in on at and with is are to his her its it their by for from while as two three one some several other "
    "another each up out down into near over through front behind next off large small young little black white red blue "
    "green brown yellow man woman people person men women boy girl boys girls child children who that there this being has "
    "have wearing holding looking standing sitting"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One query: row of its photo, its word, and the rows of the right photos."""

    row: int
    word: str
    right: tuple[int, ...]


def queries_of(captions: Sequence[Sequence[str]], most: int, *, seed: int = 0) -> list[Asked]:
    """Return queries for these photos, at most so many, drawn by `seed`.

    Args:
        captions: The captions of each photo; the first `INDEXED` do not judge.
        most: Queries at most.
        seed: Makes the draw repeatable.
    """
    counts = [Counter(word for text in texts[INDEXED:] for word in words_of(text)) for texts in captions]
    any_of = [set(count) - STOP for count in counts]
    agreed = [{word for word, times in count.items() if times > 1} - STOP for count in counts]
    own = [set().union(*(words_of(text) for text in texts)) for texts in captions]
    photos = Counter(word for words in any_of for word in words)
    vocabulary = sorted(word for word, times in photos.items() if FEWEST_PHOTOS <= times <= len(captions) / 5)
    showing = {word: [row for row, words in enumerate(agreed) if word in words] for word in vocabulary}
    queries = []
    for row, words in enumerate(agreed):
        for word in vocabulary:
            if word in own[row]:
                continue
            right = tuple(other for other in showing[word] if other != row and len((words - {word}) & any_of[other]) > 1)
            if 0 < len(right) <= MOST_RIGHT:
                queries.append(Asked(row, word, right))
    order = np.random.default_rng(seed).permutation(len(queries))[:most]
    return [queries[number] for number in sorted(order)]


class Asking:
    """Asks the queries of one part in every way, over the captions that are indexed now.

    Args:
        bench: The part's photos.
        queries: The queries.
        captioned: Whether captions are indexed.
    """

    def __init__(self, bench: Bench, queries: Sequence[Asked], *, captioned: bool) -> None:
        self._bench = bench
        self._queries = queries
        self._captioned = captioned
        self._row_of = {image_id: row for row, image_id in enumerate(bench.ids)}
        words = sorted({query.word for query in queries})
        self._word_vectors = dict(zip(words, bench.text.encode(words), strict=True))

    def composed(self, rule: Rule, words: float, *, phrase: str = "{}", understood: bool = True) -> np.ndarray:
        """Return the share of right photos of each query, composed by a rule, with a weight of the words beside 1.

        Args:
            rule: Key of `RULES`.
            words: The weight.
            phrase: How the word is asked for.
            understood: Whether phrases of change are understood, as they are in searches.
        """
        engine = QueryEngine(
            store=self._bench.store,
            catalog=self._bench.catalog,
            encoder=LocalEncoder(
                projections=self._bench.projections, text_encoders={self._bench.text.name: self._bench.text}, backbones={}
            ),
            profile=PROFILE,
            settings=QuerySettings(deadline_ms=600_000),
            weigher=make_weigher(self._bench.projections),
            compositions={DEFAULT_COMPOSITION: replace(choose_composition(DEFAULT_COMPOSITION, {}, PROFILE), rule=rule)},
        )

        async def ask(query: Asked) -> list[str]:
            text = phrase.format(query.word)
            change = (change_of(text) if understood else None) or Change(text)
            asked = ((Text(change.wanted), words), *((Text(one), -USUAL["without"]) for one in change.avoided))
            tree = Compose(((Image(self._bench.ids[query.row]), 1.0), *asked))
            return [hit.image_id for hit in (await engine.composed(tree, SearchOptions(limit=TOP))).hits]

        return self._shares(ask)

    def picture(self) -> np.ndarray:
        """Return the share of right photos of each query by its picture alone."""
        engine = self._bench.engine(MODES["both (default)"])

        async def ask(query: Asked) -> list[str]:
            response = await engine.similar(self._bench.ids[query.row], SearchOptions(limit=TOP))
            return [hit.image_id for hit in response.hits]

        return self._shares(ask)

    def words(self) -> np.ndarray:
        """Return the share of right photos of each query by its word alone, with guides."""
        engine = self._bench.engine(MODES["both (default)"])

        async def ask(query: Asked) -> list[str]:
            response = await engine.answer(SearchRequest(query=query.word, limit=TOP + 1))
            return [hit.image_id for hit in response.hits if hit.image_id != self._bench.ids[query.row]][:TOP]

        return self._shares(ask)

    def plain_sum(self) -> np.ndarray:
        """Return the share of right photos of each query by the sum of the cosines of picture and word."""
        projection = self._bench.projections[BRIDGE]
        pictures = self._rows(projection.collection)
        sums = {}
        for word, vector in self._word_vectors.items():
            sums[word] = pictures @ projection.project_texts(vector[np.newaxis])[0]
            if self._captioned:
                sums[word] = sums[word] + self._nearest_caption(vector)

        async def ask(query: Asked) -> list[str]:
            total = pictures @ pictures[query.row] + sums[query.word]
            total[query.row] = -np.inf
            return [self._bench.ids[row] for row in np.argsort(-total)[:TOP]]

        return self._shares(ask)

    def picture_to_words(self) -> np.ndarray:
        """Return the share of right photos of each query by words alone: the word after what the photo shows, in words.

        A photo is said by its nearest labels and, where captions are indexed, by the caption that is nearest to it in the
        bridge. The text is encoded as a whole and searched without guides.
        """
        engine = self._bench.engine(MODES["both (default)"])

        async def ask(query: Asked) -> list[str]:
            said = [*self._labels[query.row], *([self._nearest_captions[query.row]] if self._captioned else [])]
            response = await engine.answer(SearchRequest(query=", ".join([*said, query.word]), limit=TOP + 1, guides=0))
            return [hit.image_id for hit in response.hits if hit.image_id != self._bench.ids[query.row]][:TOP]

        return self._shares(ask)

    def text_delta(self) -> np.ndarray:
        """Return the share of right photos of each query by a delta in the bridge: photo + word - the photo's labels."""
        projection = self._bench.projections[BRIDGE]
        pictures = self._rows(projection.collection)
        labels = projection.project_texts(self._bench.text.encode([", ".join(names) for names in self._labels]))

        async def ask(query: Asked) -> list[str]:
            word = projection.project_texts(self._word_vectors[query.word][np.newaxis])[0]
            scores = pictures @ (pictures[query.row] + word - labels[query.row])
            scores[query.row] = -np.inf
            return [self._bench.ids[row] for row in np.argsort(-scores)[:TOP]]

        return self._shares(ask)

    @cached_property
    def _labels(self) -> list[list[str]]:
        """Names of the labels that are nearest to each photo."""
        space = cast("LabelSpace", self._bench.projections[LABELS])
        return [[name for name, _ in names] for names in space.nearest_labels(self._rows(space.collection), NEAREST_LABELS)]

    @cached_property
    def _nearest_captions(self) -> list[str]:
        """Of all indexed captions, the one that is nearest to each photo in the bridge."""
        projection = self._bench.projections[BRIDGE]
        texts = [text for texts in self._bench.captions for text in dict.fromkeys(texts[:-1][:INDEXED])]
        nearest = self._rows(projection.collection) @ projection.project_texts(self._bench.text.encode(texts)).T
        return [texts[place] for place in nearest.argmax(axis=1)]

    def _rows(self, collection: str) -> np.ndarray:
        return np.asarray(self._bench.store.retrieve(collection, self._bench.ids).vectors, np.float32)

    def _nearest_caption(self, vector: np.ndarray) -> np.ndarray:
        nearest = np.full(len(self._bench.ids), -1.0)
        for batch in self._bench.store.scroll(CAPTIONS, batch_size=1_000):
            owners = [self._row_of[str(payload["image"])] for payload in batch.payloads]
            np.maximum.at(nearest, owners, batch.vectors @ vector)
        return nearest

    def _shares(self, ask: Callable[[Asked], Awaitable[list[str]]]) -> np.ndarray:
        async def shares() -> list[float]:
            found = []
            for query in self._queries:
                rows = {self._row_of[image_id] for image_id in await ask(query)}
                found.append(len(rows & set(query.right)) / len(query.right))
            return found

        return np.array(asyncio.run(shares()))


def measure(options: argparse.Namespace, report: Report) -> None:
    """Index the part with captions and without, and ask every query in every way."""
    rows = [("captions", "answer", "R@10", "composed is better by")]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options)
        queries = queries_of(bench.captions, options.queries)
        groups = [bench.names[query.row] for query in queries]
        for captioned in (False, True):
            bench.caption(np.full(len(bench.names), captioned), each=INDEXED, words=0)
            asking = Asking(bench, queries, captioned=captioned)
            where = "indexed" if captioned else "none"
            ours = asking.composed(options.rule, options.words)
            rows.append((where, f"composed ({options.rule})", f"{ours.mean():.3f}", ""))
            report.record("R@10", float(ours.mean()), case=f"composed, captions {where}")
            peers = {"picture alone": asking.picture(), "words alone": asking.words(), "plain sum": asking.plain_sum()}
            peers |= {"picture to words": asking.picture_to_words(), "text delta": asking.text_delta()}
            for phrase in PHRASES:
                shown = phrase.format("WORD")
                peers[f"{shown!r}, understood"] = asking.composed(options.rule, options.words, phrase=phrase)
                peers[f"{shown!r}, literally"] = asking.composed(options.rule, options.words, phrase=phrase, understood=False)
            peers |= {
                f"composed ({rule})": asking.composed(rule, options.words) for rule in options.rules if rule != options.rule
            }
            for name, shares in peers.items():
                gain = compare_paired(shares, ours, groups).difference
                rows.append((where, name, f"{shares.mean():.3f}", f"{gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"))
                if name in {"picture alone", "words alone", "plain sum", "picture to words", "text delta"}:
                    report.record("gain", gain.low, case=f"over {name}, captions {where}")
            report.progress("\n".join("  ".join(row) for row in rows))
        bench.store.close()
        bench.catalog.close()
    report.table(rows)
    report.text(f"{len(bench.names)} photos of the {options.part} part, {len(queries)} queries of {len(set(groups))} photos")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command line."""
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--bridge", type=Path, help="a bridge that was trained on the first part alone")
    parser.add_argument("--part", choices=["validation", "test"], default="validation")
    parser.add_argument("--queries", type=int, default=1_500)
    parser.add_argument("--rule", choices=list(RULES), default="product")
    parser.add_argument("--rules", nargs="*", choices=list(RULES), default=list(RULES), help="rules to compare with it")
    parser.add_argument("--words", type=float, default=USUAL["words"], help="weight of the words beside a picture's 1")
    parser.add_argument("--cache", type=Path)


BENCHMARK = Benchmark(
    name="composed",
    about=__doc__,
    figures=(
        Figure("R@10", "share", peer="picture alone, words alone, their plain sum"),
        Figure("gain", "R@10", peer="the lower end of the interval of the difference"),
    ),
    options=add_options,
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
