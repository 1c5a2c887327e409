"""Answers of a collection with and without guides, computed on dense vectors for benchmarks that ask many queries.

The arithmetic is the engine's (weights between spaces, mean distance, tags, evidence of captions, exemplar guides), over all
pictures instead of the union of lists. Nothing is timed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lodestone.generators.engines.exemplar import LEAST_SIMILARITY, LEAST_TAG, TAG_WEIGHT
from lodestone.query.deciding.gate import Method
from lodestone.query.guides.captions import CaptionRule
from lodestone.query.guides.search import FusionSettings
from lodestone.query.weighting.fitted import SpaceWeights
from lodestone.retrieval.fusion import RankedList
from lodestone.retrieval.metrics import first_ranks
from lodestone.retrieval.tag_matches import TagMatches
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.spaces.labels import LabelSpace
from lodestone.store.base import Neighbours, SparseVector
from lodestone.tags.search import matches_of
from lodestone.tags.terms import PictureTag, literal_query, picture_vector, query_vector
from research.fits.quality import Collection
from research.fits.space_weights import ScoredQueries, trust_of

DEPTH = 100
GUIDES = 10
Evidence = Literal["text", "guides", "none"]
CAPTION_HITS = 50  # captions that the engine asks for


@dataclass(frozen=True)
class Asked:
    """Queries with one right picture each: words, their vectors (q, d) and the row of the right picture (q,)."""

    words: Sequence[str]
    vectors: np.ndarray
    truth: np.ndarray

    def take(self, rows: np.ndarray) -> Asked:
        """Return some of the queries."""
        return Asked([self.words[row] for row in rows], self.vectors[rows], self.truth[rows])


@dataclass(frozen=True)
class Captions:
    """Captions of a collection: vectors (c, d), rows of their pictures (c,) and numbers of words (c,)."""

    vectors: np.ndarray
    owner: np.ndarray
    words: np.ndarray


@dataclass(frozen=True)
class Answers:
    """The pipeline's answers to q queries.

    Attributes:
        text: (q,) average precision of the text pass.
        guided: (q,) average precision with guides.
        methods: The lists of each query that the gate judges.
        ranked: (q, 12) rows of the best pictures with guides, tags not counted.
        scores: (q, 12) scores of `ranked`.
        first: (q,) row of the first picture of the text pass, tags counted.
        first_guided: (q,) row of the first picture with guides, tags counted.
        guides: (q,) weight of the guides.
        from_tags: (q,) whether a guide was chosen for its tag.
    """

    text: np.ndarray
    guided: np.ndarray
    methods: list[list[Method]]
    ranked: np.ndarray
    scores: np.ndarray
    first: np.ndarray
    first_guided: np.ndarray
    guides: np.ndarray
    from_tags: np.ndarray


class World:
    """One collection. Pictures are rows; an id is `p` and the row.

    Args:
        pictures: The pictures and their queries.
        bridge: The bridge's weights, one of the two spaces.
        labels: Label matching, the other space.
        rule: Weights between the two spaces.
        evidence: Where captions speak for their pictures: in the text pass (`text`), with the guides, or nowhere.
    """

    def __init__(
        self,
        pictures: Collection,
        bridge: BridgeWeights,
        labels: LabelSpace,
        rule: SpaceWeights,
        *,
        evidence: Evidence = "guides",
    ) -> None:
        self._evidence = evidence
        self.n = pictures.outputs.rows
        self.ids = [f"p{row:05}" for row in range(self.n)]
        self._spaces = {"bridge": bridge.pictures(pictures.outputs), "labels": labels.project(pictures.outputs)}
        self._alike = {}
        for space, vectors in self._spaces.items():
            scores = vectors @ vectors.T
            self._alike[space] = scores / np.maximum(scores.std(1, keepdims=True), 1e-6)
        self._bridge, self._labels, self._rule = bridge, labels, rule

    def answer(
        self,
        asked: Asked,
        *,
        captions: Captions | None = None,
        tags: Sequence[TagMatches] | None = None,
        spaces: Sequence[str] = ("bridge", "labels"),
    ) -> Answers:
        """Answer every query, by the text pass and with guides.

        Args:
            asked: The queries.
            captions: Captions of the collection, if it has any.
            tags: What the tag search found for each query, ids of this world; None: no picture has tags.
            spaces: Which spaces to search.
        """
        scored = self._scores(asked)
        raw = {"bridge": scored.bridge, "labels": scored.labels}
        trust = trust_of(scored, self._rule)[:, None]
        share = {"labels": trust, "bridge": 1 - trust} if len(spaces) > 1 else {spaces[0]: np.ones_like(trust)}
        scaled = {space: raw[space] / np.maximum(raw[space].std(1, keepdims=True), 1e-6) for space in spaces}
        text = sum(share[space] * scaled[space] for space in spaces)
        methods = [[self._method(space, raw[space][row]) for space in spaces] for row in range(len(asked.truth))]
        tagged, degrees = np.zeros_like(text), np.zeros_like(text)
        if tags is not None:
            for row, matches in enumerate(tags):
                ranked, degree = matches.ranked(), matches.degrees
                tagged[row, _rows(ranked)] = ranked.weight * ranked.scores
                degrees[row, _rows(degree)] = degree.scores
                if degree.ids:
                    methods[row].append(Method(degree.space, degree.ids, degree.scores))
        evidence = {"text": np.zeros_like(text), "guides": np.zeros_like(text), "none": np.zeros_like(text)}
        by_picture = np.full(text.shape, -1.0, np.float32)
        if captions is not None:
            by_picture, evidence[self._evidence] = self._captions(asked, captions, methods)
            doubted = _undescribed_first(text + tagged, captions) * CaptionRule().weight * CaptionRule().doubt
            evidence[self._evidence] = evidence[self._evidence] + doubted
        added, weight = self._exemplars(
            by_picture, np.where(degrees < LEAST_TAG, 0.0, degrees), {space: share[space] for space in spaces}
        )
        added += evidence["guides"]
        text += evidence["text"]
        weight = weight + (CaptionRule().weight if captions is not None and self._evidence != "none" else 0.0)
        plain = (text + added) / (1 + weight)[:, None]
        order = np.argsort(-plain, axis=1, kind="stable")[:, :12]
        with_tags = text + tagged
        return Answers(
            text=1 / first_ranks(with_tags, asked.truth),
            guided=1 / first_ranks(with_tags + added, asked.truth),
            methods=methods,
            ranked=order,
            scores=np.take_along_axis(plain, order, axis=1).astype(np.float64),
            first=with_tags.argmax(1),
            first_guided=(with_tags + added).argmax(1),
            guides=weight,
            from_tags=degrees.max(1) > 0,
        )

    def _scores(self, asked: Asked) -> ScoredQueries:
        return ScoredQueries(
            labels=self._labels.project_texts(asked.vectors) @ self._spaces["labels"].T,
            bridge=self._bridge.texts(asked.vectors) @ self._spaces["bridge"].T,
            similarity=self._labels.label_similarity(asked.vectors),
            familiarity=self._bridge.familiarity(asked.vectors),
            truth=asked.truth,
            bareness=self._labels.name_similarity(asked.vectors),
        )

    def _method(self, name: str, scores: np.ndarray) -> Method:
        order = np.argsort(-scores, kind="stable")[:DEPTH]
        return Method(name, tuple(self.ids[row] for row in order), scores[order])

    def _captions(self, asked: Asked, captions: Captions, methods: list[list[Method]]) -> tuple[np.ndarray, np.ndarray]:
        """Return the best similarity of each picture's captions (-1: none) and their weighted evidence.

        The method `captions` is added to `methods`.
        """
        alike = asked.vectors @ captions.vectors.T
        rule = CaptionRule()
        spreads = ((alike - alike.mean(1, keepdims=True)) / np.maximum(alike.std(1, keepdims=True), 1e-6)).astype(np.float32)
        standing = rule.standing(spreads, captions.words[None, :])
        by_picture = np.full((len(alike), self.n), -1.0, np.float32)
        tops = np.full((len(alike), self.n), -np.inf, np.float32)
        for column, picture in enumerate(captions.owner):
            by_picture[:, picture] = np.maximum(by_picture[:, picture], alike[:, column])
            tops[:, picture] = np.maximum(tops[:, picture], standing[:, column])
        next_best = np.sort(tops, axis=1)[:, -1 - rule.speakers]
        evidence = np.full((len(alike), self.n), -np.inf, np.float32)
        beside = np.bincount(captions.owner)[captions.owner]
        for row, neutral in enumerate(np.maximum(rule.neutral, next_best)):
            of_captions = rule.evidence(standing[row], captions.words, beside=beside, neutral=float(neutral))
            np.maximum.at(evidence[row], captions.owner, of_captions)
        evidence[np.isneginf(evidence)] = 0
        for row, similar in enumerate(alike):
            nearest = np.argsort(-similar, kind="stable")[:CAPTION_HITS]
            pictures = list(dict.fromkeys(int(captions.owner[caption]) for caption in nearest))
            scores = by_picture[row, pictures].astype(np.float64)
            methods[row].append(Method("captions", tuple(self.ids[picture] for picture in pictures), scores))
        return by_picture, rule.weight * evidence

    def _exemplars(
        self, by_picture: np.ndarray, tag_scores: np.ndarray, share: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return what exemplar guides add to each picture's score, and their weight together."""
        alike = np.clip((by_picture - LEAST_SIMILARITY) / (1 - LEAST_SIMILARITY), 0, 1)
        worth = np.maximum(alike, TAG_WEIGHT * tag_scores)
        order = np.argsort(-worth, axis=1, kind="stable")[:, :GUIDES]
        weight = np.take_along_axis(worth, order, 1)
        each = FusionSettings().guide_weight / np.maximum(1.0, weight.sum(1, keepdims=True)) * weight
        added = np.zeros(by_picture.shape, np.float32)
        for space, part in share.items():
            for guide in range(order.shape[1]):
                added += part * each[:, guide : guide + 1] * self._alike[space][order[:, guide]]
        return added, each.sum(1)


def _rows(ranked: RankedList) -> list[int]:
    return [int(image_id[1:]) for image_id in ranked.ids]


def _undescribed_first(text: np.ndarray, captions: Captions) -> np.ndarray:
    """Return (q, n) 1 where a picture is the first of the words and nobody described it, else 0."""
    first, rows = text.argmax(1), np.arange(len(text))
    marked = np.zeros(text.shape, np.float32)
    marked[rows, first] = ~np.isin(first, captions.owner)
    return marked


class TagIndex:
    """Tags of a world, searched in memory as `TagSearch` searches the store.

    Args:
        ids: Identifiers of the world's pictures.
        tags: Row of a picture -> its tags.
    """

    def __init__(self, ids: Sequence[str], tags: Mapping[int, Sequence[PictureTag]]) -> None:
        self._ids = ids
        self._holding: dict[int, dict[int, float]] = {}
        for row, texts in tags.items():
            if (vector := picture_vector(texts)) is not None:
                for term, value in zip(vector.indices.tolist(), vector.values.tolist(), strict=True):
                    self._holding.setdefault(term, {})[row] = value

    def search(self, text: str) -> TagMatches:
        """Return the pictures whose tags match a text, as `TagSearch.search` does."""
        literal = literal_query(text)
        literally = None if literal is None else self._nearest(literal.vector)
        return matches_of(self._nearest(query_vector(text)), literal=literal, literally=literally)

    def _nearest(self, vector: SparseVector | None) -> Neighbours:
        scores: dict[int, float] = {}
        if vector is not None:
            for term, weight in zip(vector.indices.tolist(), vector.values.tolist(), strict=True):
                for row, value in self._holding.get(term, {}).items():
                    scores[row] = scores.get(row, 0.0) + weight * value
        best = sorted(scores, key=lambda row: (-scores[row], row))[:DEPTH]
        return Neighbours(tuple(self._ids[row] for row in best), np.array([scores[row] for row in best], np.float32))
