"""Queries whose pictures are in a collection, and queries whose pictures are not: what the confidence of answers is fitted on.

Collections are cut from captioned photos, with a bridge that was not trained on them. Present are captions of the collection's
photos, names of classes that a photo shows for sure, and bare nouns that most captions of a photo have. Absent are, as far as
the captions of the collection tell: sentences and phrases of `research/data/absent.tsv`, whose key word no caption has;
captions of other photos that are unlike every caption; captions about a topic, asked of a collection without it; names of
classes that neither caption nor classifier knows; names of classes whose last word no caption has;
random letters; captions of the photos, asked of drawings; and names of these drawings, asked of the photos.
Queries of every length, present and absent ones of one style, come from `presence_lengths.py`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from lodestone.backbones.base import OutputKey
from lodestone.query.deciding.presence import HEAD, SpaceSigns, Usual, signs
from lodestone.query.guides.captions import CaptionRule
from lodestone.retrieval.calibration import SAMPLE
from lodestone.spaces.bridge_arrays import BACKBONES
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.spaces.labels import LabelSpace
from lodestone.text_encoders.base import TextEncoder
from lodestone.text_encoders.labels import imagenet_labels
from lodestone.training.classes import TEMPLATES
from research.fits.quality import Collection
from research.fits.space_weights import sure_pictures

ABSENT: Final = Path(__file__).resolve().parents[1] / "data" / "absent.tsv"
UNLIKE: Final = 0.45  # a text with a lower cosine to every caption of a collection is about something else
UNSEEN: Final = 0.1  # highest probability of a class that no picture of a collection is taken to show
DOGS: Final = range(151, 269)  # breeds that captions do not tell apart
TOPICS: Final = (
    r"dogs?|pupp(y|ies)",
    r"snow|ski|skis|skier|skiing|snowboard\w*|sled",
    r"water|pool|ocean|beach|sea|river|lake|surf\w*|swim\w*|waves?",
    r"bikes?|bicycl\w*|motorcycl\w*|biker|cyclist|motocross",
    r"football|soccer|basketball|baseball|tennis|rugby|hockey",
    r"horses?|cowboy|rodeo",
    r"climb\w*|rocks?|cliff|mountain\w*",
)
_USUAL_CAPTIONS: Final = (0.08, 0.135)  # retrieval/calibration.py
_FEWEST_CAPTIONS: Final = 32
_MOST: Final = 3  # captions of the five of a photo that name what it surely shows
_LETTERS: Final = ("abcdefghijklmnopqrstuvwxyz", "qwertyuiop", "asdfghjkl", "zxcvbnm")


@dataclass(frozen=True)
class AbsentQuery:
    """A query about something that the photos do not show: its words, and the one that no caption has."""

    words: str
    key: str

    def in_any(self, captions: str) -> bool:
        """Return whether one of the captions, joined by newlines, has the key word, also in the plural."""
        return re.search(rf"\b{re.escape(self.key)}(s|es)?\b", captions, re.IGNORECASE) is not None


@dataclass(frozen=True)
class Judged:
    """Queries over one collection, with the signs of presence.

    Attributes:
        signs: One dict a query.
        present: (q,) whether what was asked is there.
        kinds: (q,) where the query comes from.
        size: Pictures of the collection.
    """

    signs: list[dict[str, float]]
    present: np.ndarray
    kinds: np.ndarray
    size: int


@dataclass
class Asked:
    """Queries that are gathered for one collection: vectors, presence and kinds, and each one's own caption (-1: none)."""

    vectors: list[np.ndarray] = field(default_factory=list)
    present: list[bool] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    captions: list[int] = field(default_factory=list)

    def add(self, vectors: np.ndarray, kind: str, *, present: bool, captions: np.ndarray | None = None) -> None:
        """Add queries of one kind."""
        self.vectors.append(vectors)
        self.present += [present] * len(vectors)
        self.kinds += [kind] * len(vectors)
        self.captions += [-1] * len(vectors) if captions is None else captions.tolist()


def absent_queries(part: str) -> list[AbsentQuery]:
    """Return the queries of one part of the table, `fit` or `test`."""
    with ABSENT.open(encoding="utf8", newline="") as stream:
        rows = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [AbsentQuery(row["query"], row["key"]) for row in rows if row["part"] == part]


def random_letters(rng: np.random.Generator, count: int) -> list[str]:
    """Return texts like `asdkjh qwe`: one to three words of letters, half of them from one row of a keyboard."""
    texts = []
    for _ in range(count):
        words = []
        for _ in range(rng.integers(1, 4)):
            alphabet = _LETTERS[0] if rng.random() < 0.5 else _LETTERS[rng.integers(1, 4)]
            words.append("".join(alphabet[rng.integers(len(alphabet))] for _ in range(rng.integers(3, 9))))
        texts.append(" ".join(words))
    return texts


class Gallery:
    """Photos in both spaces with their captions, from which collections are cut.

    Args:
        photos: The photos and the vectors of their captions.
        captions: Words of the captions, in the order of `photos.texts`.
        bridge: Trained on other photos.
        labels: Label matching, warm.
        usual: Usual backgrounds, as in the model.
    """

    def __init__(
        self,
        photos: Collection,
        captions: Sequence[str],
        bridge: BridgeWeights,
        labels: LabelSpace,
        usual: dict[str, Usual],
    ) -> None:
        self.photos, self.captions, self.usual = photos, list(captions), usual
        self._bridge, self._labels = bridge, labels
        self._vectors = {"bridge": bridge.pictures(photos.outputs), "labels": labels.project(photos.outputs)}
        self.probabilities = np.mean(
            [photos.outputs[OutputKey(name, "probabilities")].astype(np.float32) for name in BACKBONES], axis=0
        )
        self._lengths = np.array([len(text.split()) for text in captions])

    @property
    def size(self) -> int:
        """Number of photos that it holds."""
        return int(self.photos.outputs.rows)

    def judge(self, asked: Asked, rows: np.ndarray, *, described: np.ndarray | None = None) -> Judged:
        """Return the signs of all queries over the photos of `rows`; `described` are those whose captions are indexed."""
        texts = np.vstack(asked.vectors)
        queries = {"bridge": self._bridge.texts(texts), "labels": self._labels.project_texts(texts)}
        found: dict[str, list[SpaceSigns]] = {}
        for space, vectors in queries.items():
            scores = vectors @ self._vectors[space][rows].T
            first = np.argsort(-scores, axis=1, kind="stable")[:, :HEAD]
            sample = scores[:, :SAMPLE]
            found[space] = [
                SpaceSigns([str(row) for row in best], mine[best], float(ordinary.mean()), float(ordinary.std()), len(ordinary))
                for best, mine, ordinary in zip(first, scores, sample, strict=True)
            ]
        similarity, familiarity = self._labels.label_similarity(texts), self._bridge.familiarity(texts)
        attainable = self._bridge.attainable(texts)
        evidence = self._evidence(texts, np.array(asked.captions), described) if described is not None else np.zeros(len(texts))
        judged = [
            signs(
                {space: lists[number] for space, lists in found.items()},
                self.usual,
                similarity=float(similarity[number]),
                familiarity=float(familiarity[number]),
                attainable=float(attainable[number]),
                captions=float(evidence[number]),
            )
            for number in range(len(texts))
        ]
        return Judged(judged, np.array(asked.present), np.array(asked.kinds), len(rows))

    def _evidence(self, texts: np.ndarray, own: np.ndarray, described: np.ndarray) -> np.ndarray:
        """Return (q,) evidence of the best caption, as query/guides/captions.py has it; without a query's own caption."""
        rule = CaptionRule()
        indexed = np.flatnonzero(np.isin(self.photos.owner, described))
        if not len(indexed):
            return np.zeros(len(texts))
        cosines = texts @ self.photos.texts[indexed].T
        mean, spread = cosines[:, :SAMPLE].mean(1), np.maximum(cosines[:, :SAMPLE].std(1), 1e-6)
        if len(indexed) < _FEWEST_CAPTIONS:
            mean, spread = np.full(len(texts), _USUAL_CAPTIONS[0]), np.full(len(texts), _USUAL_CAPTIONS[1])
        spreads = ((cosines - mean[:, None]) / spread[:, None]).astype(np.float32)
        standing = rule.standing(spreads, self._lengths[indexed][None, :])
        standing[own[:, None] == indexed[None, :]] = -np.inf
        owners, group = np.unique(self.photos.owner[indexed], return_inverse=True)
        tops = np.full((len(texts), len(owners)), -np.inf, np.float32)
        for caption, owner in enumerate(group):
            np.maximum(tops[:, owner], standing[:, caption], out=tops[:, owner])
        ordered = -np.sort(-tops, axis=1)
        neutral = np.maximum(rule.neutral, ordered[:, rule.speakers] if len(owners) > rule.speakers else rule.neutral)
        return np.maximum(ordered[:, 0] - neutral, 0.0)


class Fitting:
    """Collections cut from one gallery, with present and absent queries.

    Args:
        gallery: Where they are cut from.
        encoder: Encodes words, warm.
        classes: (templates, 1000, d) vectors of class names.
        seed: Makes the draws repeatable.
    """

    def __init__(self, gallery: Gallery, encoder: TextEncoder, classes: np.ndarray, *, seed: int = 0) -> None:
        self._gallery, self._classes, self._encoder = gallery, classes, encoder
        self._rng = np.random.default_rng(seed)
        self._own = absent_queries("fit")
        self._own_vectors = encoder.encode([query.words for query in self._own])
        self._lower = [text.lower() for text in gallery.captions]

    def collections(self, sizes: Sequence[tuple[int, int]]) -> Iterator[Judged]:
        """Yield judged queries of collections of several sizes: (photos, how often); large ones also without each topic."""
        for size, times in sizes:
            for number in range(times):
                rows = np.sort(self._rng.permutation(self._gallery.size)[:size])
                described = self._rng.permutation(rows)[: round((0.0, 0.3, 1.0)[number % 3] * len(rows))]
                yield self._gallery.judge(self._mixed(rows), rows, described=described)
            if size >= 100:
                yield from self._without_topics(rows)

    def across(self, drawings: Gallery, names: np.ndarray, sizes: Sequence[tuple[int, int]]) -> Iterator[Judged]:
        """Yield drawings asked for captions of the photos, and photos asked for names of drawings and for nouns.

        Args:
            drawings: Pictures of another kind, whose captions are the names of what they show.
            names: (templates, drawings, d) vectors of the names.
            sizes: Collections of photos: (photos, how often).
        """
        texts, rng = self._gallery.photos.texts, self._rng
        for size in (20, 40, 120, 300, drawings.size):
            rows = np.sort(rng.permutation(drawings.size)[:size])
            foreign = texts[rng.permutation(len(texts))[:400]]
            asked = Asked()
            asked.add(foreign[(foreign @ np.concatenate(names[:, rows]).T).max(1) < UNLIKE], "foreign caption", present=False)
            yield drawings.judge(asked, rows)
        said = "\n".join(self._lower)
        unsaid = [row for row, name in enumerate(drawings.captions) if not _any_word_of(name, said)]
        last_words = [label.split(",")[0].lower().split()[-1] for label in imagenet_labels()]
        foreign_classes = [number for number, word in enumerate(last_words) if word not in said.lower()]
        shown = self._nouns([*drawings.captions, *imagenet_labels()])
        nouns = [self._encoder.encode([template.format(noun) for noun in shown]) for template in TEMPLATES]
        for size, times in sizes:
            for _ in range(times):
                rows, template = np.sort(rng.permutation(self._gallery.size)[:size]), rng.integers(len(TEMPLATES))
                there = [number for number, photos in enumerate(shown.values()) if np.isin(photos, rows).any()]
                asked = Asked()
                asked.add(nouns[template][there], "noun", present=True)
                asked.add(names[template, rng.permutation(unsaid)[:150]], "foreign name", present=False)
                asked.add(self._classes[template, rng.permutation(foreign_classes)[:150]], "unsaid class", present=False)
                yield self._gallery.judge(asked, rows)

    def _nouns(self, names: Sequence[str]) -> dict[str, np.ndarray]:
        """Return those names of one or two words that are in most captions of a photo, each with these photos."""
        nouns = {}
        for name in sorted({name.split(",")[0].strip().lower() for name in names}):
            if re.fullmatch("[a-z]{3,}(?: [a-z]{3,})?", name):
                pattern = re.compile(rf"\b{re.escape(name)}(s|es)?\b")
                says = np.array([pattern.search(text) is not None for text in self._lower])
                photos = np.flatnonzero(np.bincount(self._gallery.photos.owner[says], minlength=self._gallery.size) >= _MOST)
                if len(photos):
                    nouns[name] = photos
        return nouns

    def _captions_of(self, rows: np.ndarray) -> np.ndarray:
        """Return one caption of each photo, at random."""
        owners = self._gallery.photos.owner
        return np.array([self._rng.choice(np.flatnonzero(owners == row)) for row in rows], int)

    def _mixed(self, rows: np.ndarray) -> Asked:
        gallery, rng, asked = self._gallery, self._rng, Asked()
        texts, owners = gallery.photos.texts, gallery.photos.owner
        inside = np.isin(owners, rows)
        chosen = self._captions_of(rng.permutation(rows)[:250])
        asked.add(texts[chosen], "caption", present=True, captions=chosen)
        named = sure_pictures(gallery.probabilities[rows])[0]
        template = rng.integers(len(self._classes))
        asked.add(self._classes[template, named], "name", present=True)
        joined = "\n".join(self._lower[caption] for caption in np.flatnonzero(inside))
        missing = [number for number, query in enumerate(self._own) if not query.in_any(joined)]
        asked.add(self._own_vectors[missing], "own", present=False)
        others = rng.permutation(np.flatnonzero(~inside))[:500]
        unlike = others[(texts[others] @ texts[inside].T).max(1, initial=-1) < UNLIKE][:150]
        asked.add(texts[unlike], "elsewhere", present=False)
        unseen = gallery.probabilities[rows].max(0) < UNSEEN
        unsaid = (self._classes[0] @ texts[inside].T).max(1) < UNLIKE
        unsaid[list(DOGS)] = False
        asked.add(self._classes[template, rng.permutation(np.flatnonzero(unseen & unsaid))[:150]], "class", present=False)
        asked.add(self._encoder.encode(random_letters(rng, 25)), "letters", present=False)
        return asked

    def _without_topics(self, rows: np.ndarray) -> Iterator[Judged]:
        texts, owners = self._gallery.photos.texts, self._gallery.photos.owner
        for topic in TOPICS:
            pattern = re.compile(rf"\b({topic})\b")
            about = np.array([pattern.search(text) is not None for text in self._lower])
            touched = np.unique(owners[about])
            rest = rows[~np.isin(rows, touched)]
            mostly = [row for row in touched if about[owners == row].mean() >= 0.8]
            asked = Asked()
            captions = self._captions_of(self._rng.permutation(mostly)[:60]) if mostly else np.zeros(0, int)
            captions = captions[about[captions]]
            if len(captions) < 5 or len(rest) < 50:
                continue
            asked.add(texts[captions], "topic", present=False)
            chosen = self._captions_of(self._rng.permutation(rest)[: len(captions)])
            asked.add(texts[chosen], "caption", present=True, captions=chosen)
            yield self._gallery.judge(asked, rest)


def _any_word_of(name: str, said: str) -> bool:
    """Return whether a word of three letters or more, or a word that it begins, is in the captions."""
    return any(re.search(rf"\b{word}", said) for word in re.findall("[a-z]{3,}", name.lower()))
