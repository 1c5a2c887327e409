"""Evidence of captions for and against pictures, beside what the spaces see in them.

A caption that is much like the query is evidence for its picture. One that says something else is weak evidence against it,
because a description names what there is to see. What counts as much alike depends on the collection's captions: similarities
are measured in units of their spread over a sample of captions. Pictures without captions get no evidence.

    evidence(caption) = max(z - neutral, -against)    z = (cosine - mean) / spread over the sample

The more captions there are, the more of them are like any query by chance. So only the few best pictures get evidence for them:
`neutral` is at least the standing of the next best one. The length of a caption matters too: one of two words ("metal fence")
needs to fit better, and what it leaves out means little. A picture counts by its best caption.

The picture that the words alone put first gets the benefit of the doubt (`doubt`) where nobody described it: otherwise a
described picture that merely looks like it takes its place. Fitted on 500 validation and 1,500 training pictures, with full
descriptions and with titles (research/studies/exemplars.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.catalog.identity import caption_id
from lodestone.catalog.reading import CatalogReader
from lodestone.retrieval.calibration import ScoreCalibration
from lodestone.retrieval.fusion import TEXT_GUIDE, RankedList
from lodestone.spaces.names import CAPTIONS
from lodestone.store.algebra import by_owner
from lodestone.store.base import Filter, HasId, MatchAny, Neighbours, VectorQuery, VectorStore
from lodestone.store.checks import MAX_LIMIT

MOST_REMEMBERED: Final = 200_000  # captions, about 40 MB
_UNKNOWN: Final[tuple[None, int]] = (None, 0)


@dataclass(frozen=True, slots=True)
class CaptionRule:
    """Fitted numbers of the evidence (research/studies/exemplars.py).

    `neutral` was chosen so that pictures without captions lose no average precision.

    Attributes:
        weight: Weight of the list of captions; the spaces' weights sum to 1, their scores are in units of their spread.
        full: Words of a caption that says as much as captions do; shorter ones say their share of it.
        speakers: Pictures that may get evidence for them, at most.
        neutral: Spreads above the mean at which a full caption says neither yes nor no, at least.
        short: What a caption of no words falls behind a full one, in spreads; in between it is linear.
        against: Most that full captions take, in spreads; shorter ones take their share.
        several: Captions of a picture that take all of `against`; fewer take their share, because one caption leaves most of
            what a picture shows unsaid.
        doubt: Evidence for the picture that the words alone put first, where it has no caption, in spreads.
    """

    weight: float = 0.6
    full: int = 10
    speakers: int = 5
    neutral: float = 4.0
    short: float = 0.25
    against: float = 0.4
    several: int = 4
    doubt: float = 0.7

    def standing(self, spreads: NDArray[np.float32], words: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return (n,) float32 standings from (n,) spreads above the mean and numbers of words: short captions fall behind."""
        standing: NDArray[np.float32] = (spreads - self.short * (1 - self._share(words))).astype(np.float32)
        return standing

    def evidence(
        self, standing: NDArray[np.float32], words: NDArray[np.intp], *, beside: NDArray[np.intp], neutral: float
    ) -> NDArray[np.float32]:
        """Return (n,) float32 evidence, 0 being none.

        Args:
            standing: (n,) standings of captions.
            words: (n,) their numbers of words.
            beside: (n,) number of captions that the picture of each has, itself included.
            neutral: Standing at which a caption says neither yes nor no.
        """
        denied = self.against * self._share(words) * np.minimum(beside / self.several, 1.0)
        evidence: NDArray[np.float32] = np.maximum(standing - neutral, -denied).astype(np.float32)
        return evidence

    def _share(self, words: NDArray[np.intp]) -> NDArray[np.float64]:
        share: NDArray[np.float64] = np.minimum(words / self.full, 1.0)
        return share


class CaptionMatches:
    """Captions compared with one query; `CaptionEvidence.ask` makes them.

    Args:
        found: The pictures with the most evidence for them, best first: guide `text`, space `captions`, scale 1.
        of: Returns the evidence of the best caption of each of the pictures that have one.
        doubted: Picture -> evidence that it gets where it has no caption.
    """

    def __init__(
        self,
        found: RankedList,
        of: Callable[[Sequence[str]], Mapping[str, float]],
        *,
        doubted: Mapping[str, float] | None = None,
    ) -> None:
        self.found = found
        self._of = of
        self._doubted = dict(doubted or {})
        self._known: dict[str, float] = {}
        self._silent: set[str] = set()

    def speak(self, image_ids: Sequence[str]) -> bool:
        """Return whether a caption is evidence for any, or against one of these pictures. Blocking; raises as `completed`."""
        self._ask(image_ids)
        return bool(self.found.ids) or any(self._known[image_id] for image_id in image_ids)

    def completed(self, image_ids: Sequence[str]) -> RankedList:
        """Return `found` over all of `image_ids`: evidence for and against. Blocking.

        Pictures without captions have 0, or the benefit of the doubt. Pictures that were asked about before cost nothing.

        Raises:
            StoreError, CatalogError: what the captions are read from failed.
        """
        self._ask(image_ids)
        evidence = {
            image_id: self._doubted.get(image_id, 0.0) if image_id in self._silent else self._known[image_id]
            for image_id in image_ids
        }
        ids = sorted(evidence, key=lambda image_id: (-evidence[image_id], image_id))
        scores = np.array([evidence[image_id] for image_id in ids], np.float32)
        return RankedList(TEXT_GUIDE, CAPTIONS, self.found.weight, tuple(ids), scores)

    def _ask(self, image_ids: Sequence[str]) -> None:
        new = [image_id for image_id in image_ids if image_id not in self._known]
        if new:
            told = dict(self._of(new))
            self._silent |= set(new) - told.keys()
            self._known |= dict.fromkeys(new, 0.0) | told


class CaptionEvidence:
    """Weighs the captions of a collection. Blocking and thread-safe.

    Args:
        store: Holds the captions' vectors.
        catalog: Knows the captions' words.
        calibration: Keeps the sample of captions.
        rule: None for the fitted one.
    """

    def __init__(
        self, store: VectorStore, catalog: CatalogReader, calibration: ScoreCalibration, *, rule: CaptionRule | None = None
    ) -> None:
        self._store = store
        self._words = CaptionWords(catalog)
        self._calibration = calibration
        self._rule = rule or CaptionRule()

    @property
    def counts(self) -> bool:
        """Whether the rule gives captions any weight."""
        return self._rule.weight > 0

    def ask(
        self,
        vector: NDArray[np.float32],
        collection: str,
        *,
        filter_: Filter | None = None,
        limit: int = 50,
        first: str | None = None,
    ) -> CaptionMatches:
        """Search the captions that are evidence for their pictures.

        Args:
            vector: (d,) float32, the query's words by the encoder of the captions.
            collection: What the alias `captions` stood for at the start of the query.
            filter_: The query's own.
            limit: Captions at most.
            first: The picture that the words alone put first.

        Raises:
            StoreError, CatalogError: what the captions are read from failed.
        """
        instant = self._store.instant(collection)
        query = VectorQuery(vector, limit=limit, filter=by_owner(filter_), with_payload=not instant)
        (found,) = self._store.search(collection, [query])
        images, counted = self._described(collection, found)
        standing = self._standing(vector, collection, found.scores, counted)
        tops: dict[str, float] = {}
        for image_id, value in zip(images, standing.tolist(), strict=True):
            if image_id is None:
                continue  # removed meanwhile
            tops[image_id] = max(value, tops.get(image_id, value))
        neutral = max([self._rule.neutral, *sorted(tops.values(), reverse=True)[self._rule.speakers :][:1]])
        best = {image_id: value - neutral for image_id, value in tops.items() if value > neutral}
        ids = sorted(best, key=lambda image_id: (-best[image_id], image_id))
        scores = np.array([best[image_id] for image_id in ids], np.float32)
        return CaptionMatches(
            RankedList(TEXT_GUIDE, CAPTIONS, self._rule.weight, tuple(ids), scores),
            lambda image_ids: self._of(image_ids, vector, collection, neutral),
            doubted={} if first is None else {first: self._rule.doubt},
        )

    def _of(self, image_ids: Sequence[str], vector: NDArray[np.float32], collection: str, neutral: float) -> dict[str, float]:
        """Map pictures to the evidence of their best caption; pictures without captions are left out."""
        if self._store.instant(collection):
            wanted = Filter((MatchAny("image", tuple(image_ids)),))
            (found,) = self._store.search(collection, [VectorQuery(vector, limit=MAX_LIMIT, filter=wanted, exact=True)])
            words = self._words.known
            if not all(key in words for key in found.ids):
                words = self._words.read(image_ids)
        else:
            words = self._words.read(image_ids)
            if not words:
                return {}
            query = VectorQuery(vector, limit=len(words), filter=Filter((HasId(tuple(words)),)), exact=True)
            (found,) = self._store.search(collection, [query])
        described = [words.get(key, _UNKNOWN) for key in found.ids]
        counted = np.array([count for _, count in described], np.intp)
        standing = self._standing(vector, collection, found.scores, counted)
        having = Counter(image_id for image_id, _ in described)
        beside = np.array([having[image_id] for image_id, _ in described], np.intp)
        evidence = self._rule.evidence(standing, counted, beside=beside, neutral=neutral)
        best: dict[str, float] = {}
        for (image_id, _), value in zip(described, evidence.tolist(), strict=True):
            if image_id is not None:
                best[image_id] = max(value, best.get(image_id, value))
        return best

    def _described(self, collection: str, found: Neighbours) -> tuple[list[str | None], NDArray[np.intp]]:
        """Return the picture (None: the point is gone) and the number of words (0: unknown) of each caption that was found."""
        words = self._words.known
        new = [key for key in found.ids if key not in words]
        owners: dict[str, str] = {}
        if new:
            ids, payloads = found.ids, found.payloads
            if not payloads:
                points = self._store.retrieve(collection, new)
                ids, payloads = tuple(points.ids), tuple(points.payloads)
            owners = {key: str(payload["image"]) for key, payload in zip(ids, payloads, strict=True)}
            words = {**words, **self._words.read(list(dict.fromkeys(owners[key] for key in new if key in owners)))}
        described = [words.get(key) or (owners.get(key), 0) for key in found.ids]
        return [image_id for image_id, _ in described], np.array([count for _, count in described], np.intp)

    def _standing(
        self,
        vector: NDArray[np.float32],
        collection: str,
        cosines: NDArray[np.float32],
        words: NDArray[np.intp],
    ) -> NDArray[np.float32]:
        mean, spread = self._calibration.standing(collection, vector)
        return self._rule.standing((cosines - np.float32(mean)) / np.float32(spread), words)


class CaptionWords:
    """Numbers of words of captions, read from the catalog once. An id is made of picture and text, so it never means another.

    A caption that was changed keeps its evidence until its point leaves the store, at the end of the run that changed it.

    Args:
        catalog: Knows the captions' words.
        most: Captions that are remembered at most.
    """

    def __init__(self, catalog: CatalogReader, *, most: int = MOST_REMEMBERED) -> None:
        self._catalog = catalog
        self._most = most
        self._known: dict[str, tuple[str, int]] = {}

    @property
    def known(self) -> Mapping[str, tuple[str, int]]:
        """Caption id -> its picture and its number of words, of the captions that were read."""
        return self._known

    def read(self, image_ids: Sequence[str]) -> Mapping[str, tuple[str, int]]:
        """Return caption id -> picture and number of words of all captions of these pictures. Blocking."""
        words = {
            caption_id(image_id, caption.source, caption.text): (image_id, len(caption.text.split()))
            for image_id, captions in self._catalog.captions(image_ids).items()
            for caption in captions
        }
        if len(self._known) + len(words) > self._most:
            self._known = {}  # others go on reading the former one
        self._known.update(words)
        return words
