"""Stream of queries that leave tags, over a home with the real catalog, outbox, store and tag search.

Users ask for the same pictures in other words on several days. Some pictures have their first caption. Each picture's second
caption is asked first. Answers leave implicit tags, and every second user marks the right picture where it is among the first
ten. Then the other three captions are asked, and the second ones again. Tags are delivered after every hundred queries.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import ImageRecord, ImageState, TagRecord
from lodestone.query.deciding.gate import GateModel
from lodestone.retrieval.tag_matches import TagMatches
from lodestone.spaces.names import TAGS
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.edge.store import EdgeStore
from lodestone.tags.delivery import deliver
from lodestone.tags.implicit import Confidence
from lodestone.tags.search import TagSearch
from lodestone.tags.service import FEEDBACK, IMPLICIT, TagService, new_tag
from research.fits.gate_data import Scene
from research.fits.gate_world import Answers, Asked

BATCH = 100  # queries between two deliveries
MOST = 5  # pictures that one query tags
PAGE = 10  # results that a user looks at


class Home:
    """Catalog and store with the world's pictures."""

    def __init__(self, folder: Path, scene: Scene) -> None:
        folder.mkdir(parents=True)
        self.catalog = Catalog.open(folder / "catalog.sqlite")
        self.store = EdgeStore(folder / "store", aliases=JsonAliasTable(folder / "aliases.json"))
        self.book = TagService(self.catalog)
        self._search = TagSearch(self.store)
        corpus = self.catalog.ensure_corpus("photos")
        self.corpus_id = corpus.corpus_id
        root = self.catalog.ensure_root(corpus.corpus_id, "/photos")
        minted = self.catalog.mint_image_ids(corpus.corpus_id, root.name, scene.world.ids)
        self.ids = [minted[name] for name in scene.world.ids]
        self.names = {image_id: name for name, image_id in minted.items()}
        self.catalog.add_images(
            [
                ImageRecord(image_id, corpus.corpus_id, root.root_id, name, f"{row:064x}", 1, 0, ImageState.ACTIVE)
                for row, (name, image_id) in enumerate(minted.items())
            ]
        )

    def tags(self, asked: Asked) -> list[TagMatches] | None:
        """Return what the tag search finds for each query, in the world's own ids; None while there are no tags."""
        collection = self.store.aliases().get(TAGS)
        if collection is None:
            return None
        return [self._named(self._search.search(text, collection)) for text in asked.words]

    def _named(self, matches: TagMatches) -> TagMatches:
        return TagMatches(
            replace(matches.found, ids=tuple(self.names[image_id] for image_id in matches.found.ids)),
            whole=frozenset(self.names[image_id] for image_id in matches.whole),
            named=frozenset(self.names[image_id] for image_id in matches.named),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.store.close()
        self.catalog.close()


class State(NamedTuple):
    """What the gate does with queries.

    Attributes:
        simple: Share of queries that the gate calls simple.
        gated: Mean average precision with the gate.
        text: Mean average precision of the text pass.
        gains: (q,) what guides add, in the order in which queries become simple as the threshold falls.
        guided: Mean average precision with guides for every query.
    """

    simple: float
    gated: float
    text: float
    gains: np.ndarray
    guided: float

    def simple_at(self, least: float) -> float:
        """Return the largest share of queries that some threshold ends early without falling below this mean precision."""
        reached = self.guided - np.cumsum(self.gains) / len(self.gains)
        enough = np.flatnonzero(reached >= least - 1e-9)
        return (int(enough[-1]) + 1) / len(self.gains) if len(enough) else 0.0


def judge(home: Home, scene: Scene, gate: GateModel, asked: Asked, *, share: float) -> State:
    """Answer queries with the present tags."""
    return _state(gate, scene.world.answer(asked, captions=scene.captions(share, 9, first=1), tags=home.tags(asked)))


def stream(
    home: Home, scene: Scene, gate: GateModel, sure: Confidence, *, share: float, feedback: bool, seed: int
) -> list[tuple[str, ...]]:
    """Ask a stream of queries; return table rows: before, after, and after undoing the tags.

    Args:
        home: Home without tags.
        scene: Pictures and captions.
        gate: Decides whether a query is simple.
        sure: Decides which pictures are tagged.
        share: Share of the pictures that have captions from elsewhere.
        feedback: Whether every second user marks the right picture.
        seed: Draws the order of the queries and the users that mark.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(scene.world.n)
    first = scene.asked(1).take(order)
    later = _others(scene, rng)
    started = datetime.now(UTC) - timedelta(seconds=1)
    before = judge(home, scene, gate, later, share=share), judge(home, scene, gate, first, share=share)
    right = given = 0
    for start in range(0, len(order), BATCH):
        asked = first.take(np.arange(start, min(start + BATCH, len(order))))
        tags = _learnt(home, scene, gate, sure, asked, share=share, marks=rng.random(BATCH) < feedback * 0.5)
        given += len(tags)
        right += sum(home.ids[truth] == tag.image_id for tag, truth in tags)
        home.catalog.add_tags([tag for tag, _ in tags])
        deliver(home.catalog, home.store)
    after = judge(home, scene, gate, later, share=share), judge(home, scene, gate, first, share=share)
    home.book.undo(since=started)
    deliver(home.catalog, home.store)
    undone = judge(home, scene, gate, later, share=share), judge(home, scene, gate, first, share=share)
    return [
        _row("none", "before", 0, 0, before, before=before),
        _row("learnt", f"after {len(order)} queries", given, right, after, before=before),
        _row("undone", "after that", 0, 0, undone, before=before),
    ]


def reinforcement(home: Home, scene: Scene, gate: GateModel, sure: Confidence, *, share: float) -> list[tuple[str, ...]]:
    """Ask the four captions of each picture on four days, with implicit tags alone; return table rows.

    The rows show whether wrong tags lead to more wrong tags.
    """
    rows: list[tuple[str, ...]] = []
    for day in range(1, 5):
        bare = _plain(scene, gate, day, share)
        asked = scene.asked(day)
        state = judge(home, scene, gate, asked, share=share)
        tags = _learnt(home, scene, gate, sure, asked, share=share, marks=np.zeros(len(asked.words), bool))
        right = sum(home.ids[truth] == tag.image_id for tag, truth in tags)
        home.catalog.add_tags([tag for tag, _ in tags])
        deliver(home.catalog, home.store)
        rows.append(
            (
                str(day),
                str(len(tags)),
                f"{right / max(1, len(tags)):.0%}",
                f"{state.simple:.0%} ({bare.simple:.0%})",
                f"{state.gated:.3f} ({bare.gated:.3f})",
                f"{state.text:.3f} ({bare.text:.3f})",
            )
        )
    return rows


def _plain(scene: Scene, gate: GateModel, day: int, share: float) -> State:
    return _state(gate, scene.world.answer(scene.asked(day), captions=scene.captions(share, 9, first=1)))


def _state(gate: GateModel, answers: Answers) -> State:
    decisions = [gate.decide(methods) for methods in answers.methods]
    simple = np.array([decision.verdict == "simple" for decision in decisions])
    order = np.argsort([-decision.predicted_ap for decision in decisions], kind="stable")
    return State(
        float(simple.mean()),
        float(np.where(simple, answers.text, answers.guided).mean()),
        float(answers.text.mean()),
        (answers.guided - answers.text)[order],
        float(answers.guided.mean()),
    )


def _learnt(
    home: Home, scene: Scene, gate: GateModel, sure: Confidence, asked: Asked, *, share: float, marks: np.ndarray
) -> list[tuple[TagRecord, int]]:
    """Return the tags that these queries leave, each with the row of the query's right picture."""
    answers = scene.world.answer(asked, captions=scene.captions(share, 9, first=1), tags=home.tags(asked))
    simple, now = _simple(gate, answers), datetime.now(UTC)
    tags = []
    for row, text in enumerate(asked.words):
        truth = int(asked.truth[row])
        if not simple[row] and answers.guides[row] > 0 and not answers.from_tags[row]:
            confident = sure.of(answers.scores[row], guides=float(answers.guides[row]), most=MOST)
            for place, score in enumerate(confident):
                if score >= sure.threshold:
                    image_id = home.ids[answers.ranked[row][place]]
                    tag = new_tag(image_id, home.corpus_id, text, source=IMPLICIT, created_at=now, score=float(score))
                    tags.append((tag, truth))
        shown = answers.text[row] if simple[row] else answers.guided[row]
        if marks[row] and shown >= 1 / PAGE:
            tags.append((new_tag(home.ids[truth], home.corpus_id, text, source=FEEDBACK, created_at=now), truth))
    return tags


def _others(scene: Scene, rng: np.random.Generator) -> Asked:
    """Return the captions that were not asked first, in random order."""
    parts = [scene.asked(position) for position in range(2, 5)]
    every = Asked(
        [text for queries in parts for text in queries.words],
        np.concatenate([queries.vectors for queries in parts]),
        np.concatenate([queries.truth for queries in parts]),
    )
    return every.take(rng.permutation(len(every.words)))


def _simple(gate: GateModel, answers: Answers) -> np.ndarray:
    return np.array([gate.decide(methods).verdict == "simple" for methods in answers.methods])


def _row(
    tags: str, when: str, given: int, right: int, states: tuple[State, State], *, before: tuple[State, State]
) -> tuple[str, ...]:
    other, same = states
    return (
        tags,
        when,
        str(given),
        f"{right / given:.0%}" if given else "-",
        f"{other.simple:.1%}",
        f"{other.gated:.3f}",
        f"{other.simple_at(before[0].gated):.1%}",
        f"{same.simple:.1%}",
        f"{same.gated:.3f}",
        f"{same.simple_at(before[1].gated):.1%}",
    )
