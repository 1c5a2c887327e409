"""Collections and queries that the gate is fitted to and judged on: captioned photos, cut into many small collections.

A bridge is trained without the pictures that it is asked about. For fitting there is one bridge a fold of the training part,
each trained without its fold. For the figures there is one bridge, trained on the whole training part and asked about the
validation part. Further sets of captioned photos add their training parts to each bridge and are not asked about. The test
parts are not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lodestone.models.cache import ModelCache, fingerprint
from lodestone.models.context import ModelContext
from lodestone.query.deciding.gate import features
from lodestone.query.weighting.fitted import SpaceWeights
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.spaces.labels import LabelSpace
from lodestone.tags.implicit import evidence
from lodestone.tags.terms import PictureTag
from lodestone.text_encoders.labels import imagenet_labels
from lodestone.text_encoders.registry import make_text_encoder
from lodestone.training.bridge import train_bridge
from lodestone.training.classes import TEMPLATES, class_pairs, class_texts, classifiers
from lodestone.training.complexity import Observation
from lodestone_eval.datasets.plain import Split, split_by_hash
from research.fits.gate_world import Answers, Asked, Captions, Evidence, TagIndex, World
from research.fits.quality import Collection, cached, load, made_names, part, read_table, short_texts, together
from research.fits.tag_confidence import JudgedAnswer

FOLDS = 3
SHARES = (0.0, 0.1, 0.3, 1.0)  # shares of the pictures that have captions
SIZES = (300, 500, 1000)
JUDGED = 5  # pictures of an answer that the confidence is fitted to


@dataclass(frozen=True)
class Scene:
    """One collection: its pictures, their captions and the queries made of class names.

    Attributes:
        world: The pictures in both spaces.
        words: One caption a row.
        vectors: (captions, d) vectors of the captions.
        owner: (captions,) row of each caption's picture.
        position: (captions,) number of the caption among those of its picture, 0 to 4.
        names: Queries made of class names.
    """

    world: World
    words: list[str]
    vectors: np.ndarray
    owner: np.ndarray
    position: np.ndarray
    names: Asked

    def asked(self, position: int) -> Asked:
        """Return one caption of each picture as a query."""
        rows = np.flatnonzero(self.position == position)
        return Asked([self.words[row] for row in rows], self.vectors[rows], self.owner[rows])

    def captions(self, share: float, seed: int, *, first: int = 4) -> Captions | None:
        """Return the first captions of a random share of the pictures; None if there are none."""
        had = np.zeros(self.world.n, bool)
        had[np.random.default_rng(seed).permutation(self.world.n)[: round(share * self.world.n)]] = True
        rows = np.flatnonzero((self.position < first) & had[self.owner])
        if not len(rows):
            return None
        return Captions(self.vectors[rows], self.owner[rows], np.array([len(self.words[row].split()) for row in rows]))


class Data:
    """Vectors and bridges that are computed once.

    Args:
        folders: Folders with `captions.tsv` and `images/`; queries and their pictures are of the first one.
        cache: Folder that keeps outputs, text vectors and bridges.
        evidence: Where captions speak for their pictures, as `World` takes it.
    """

    def __init__(self, folders: Sequence[Path], cache: Path, *, evidence: Evidence) -> None:
        cache.mkdir(parents=True, exist_ok=True)
        context = ModelContext(cache=ModelCache(cache / "models"), threads=2)
        sets: list[tuple[Collection, Split]] = []
        for folder in folders:
            rows = read_table(folder / "captions.tsv", "caption")
            split = split_by_hash(name for name, _ in rows)
            names = split.train + split.validation + split.test
            captioned = load(context, cache, folder.name, rows=rows, folder=folder / "images", names=names)
            sets.append((captioned, split))
        (self._collection, split), *others = sets
        self._taught_beside = [part(collection, np.arange(len(of_set.train))) for collection, of_set in others]
        self._words = list(self._collection.words)
        self._train, self._validation = len(split.train), len(split.validation)
        self._labels = LabelSpace(context)
        self._labels.warm_up()
        self._encoder = encoder = make_text_encoder("minilm", context)
        encoder.warm_up()

        def encode_classes() -> dict[str, np.ndarray]:
            return {"texts": class_texts(encoder)}

        self._classes = cached(cache, f"classes-{fingerprint(*imagenet_labels(), *TEMPLATES)}", encode_classes)["texts"]
        self._cache, self._evidence = cache, evidence
        self._rule = SpaceWeights.from_header(BridgeWeights.shipped().query_weights)

    def validation(self) -> Scene:
        """Return the scene of the validation part."""
        rows = np.arange(self._train, self._train + self._validation)
        return self._scene(rows, self._bridge("trained-0", np.arange(self._train)))

    def folds(self) -> Iterator[Scene]:
        """Yield collections of the training part, of several sizes."""
        fold = np.arange(self._train) % FOLDS
        for number in range(FOLDS):
            bridge = self._bridge(f"fold-{number}", np.flatnonzero(fold != number))
            rows = np.flatnonzero(fold == number)
            for size in SIZES:
                yield self._scene(rows[:size], bridge)

    def _bridge(self, name: str, rows: np.ndarray) -> BridgeWeights:
        taught = together([part(self._collection, rows), *self._taught_beside])
        path = self._cache / f"{name}-{fingerprint(*taught.words)}.safetensors"
        if not path.exists():
            classes = class_pairs(taught.outputs, classifiers(), self._classes, seed=0)
            phrases = short_texts(taught, self._encoder, self._cache)
            train_bridge(*taught[:3], phrases=phrases, classes=classes, seed=0)[0].save_as(path)
        return BridgeWeights.load(path)

    def _scene(self, rows: np.ndarray, bridge: BridgeWeights) -> Scene:
        pictures: Collection = part(self._collection, rows)
        words = [text for text, asked in zip(self._words, np.isin(self._collection.owner, rows), strict=True) if asked]
        captions_so_far: dict[int, int] = {}
        position = np.empty(len(words), int)
        for row, owner in enumerate(pictures.owner):
            position[row] = captions_so_far.get(owner, 0)
            captions_so_far[owner] = position[row] + 1
        named = made_names(pictures, self._classes)
        world = World(pictures, bridge, self._labels, self._rule, evidence=self._evidence)
        queries = Asked([""] * len(named.owner), named.texts, named.owner)
        return Scene(world, words, pictures.texts, pictures.owner, position, queries)


def used(scene: Scene, asked: Asked, seed: int) -> TagIndex:
    """Return tags as use leaves them: two other captions for three pictures in ten, the exact words for one query in seven.

    One tag in ten lies on another picture, with less confidence.
    """
    rng = np.random.default_rng(seed)
    tags: dict[int, list[PictureTag]] = {}
    for row, truth in enumerate(asked.truth):
        others = [scene.words[caption] for caption in np.flatnonzero((scene.owner == truth) & (scene.position < 2))]
        texts = (others if rng.random() < 0.3 else []) + ([asked.words[row]] if rng.random() < 0.15 else [])
        right = rng.random() >= 0.1
        on = int(truth) if right else int(rng.integers(scene.world.n))
        tags.setdefault(on, []).extend(PictureTag(text, 1.0, "query") if right else PictureTag(text, 0.8) for text in texts)
    return TagIndex(scene.world.ids, tags)


def observations(scene: Scene, number: int) -> Iterator[Observation]:
    """Yield judged queries of one collection: captions and names, with and without captions, tags and either space."""
    asked = scene.asked(4)
    index = used(scene, asked, number)
    tagged = [index.search(text) for text in asked.words]
    for share in SHARES:
        captions = scene.captions(share, number)
        for tags in (None, tagged):
            yield from observed(scene.world.answer(asked, captions=captions, tags=tags), asked, number)
        yield from observed(scene.world.answer(scene.names, captions=captions), scene.names, number)
    for space in ("bridge", "labels"):
        for queries in (asked, scene.names):
            yield from observed(scene.world.answer(queries, spaces=[space]), queries, number)


def observed(answers: Answers, asked: Asked, number: int) -> Iterator[Observation]:
    """Yield one observation a query."""
    for methods, text, guided, truth in zip(answers.methods, answers.text, answers.guided, asked.truth, strict=True):
        yield Observation(features(methods), float(text), float(guided), f"{number}/{truth}")


def judged(answers: Answers, asked: Asked) -> Iterator[JudgedAnswer]:
    """Yield answers that had guides: the confidence in pictures is fitted to them."""
    for row in np.flatnonzero(answers.guides > 0):
        strengths = evidence(answers.scores[row], guides=float(answers.guides[row]), most=JUDGED)
        right = answers.ranked[row][: len(strengths)] == asked.truth[row]
        yield JudgedAnswer(strengths, right, float(answers.guided[row]))
