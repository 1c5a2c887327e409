"""From which collections and queries is the gate fitted and judged? Captioned photos, cut into many small collections.

Bridges are trained without the pictures that they are asked about: for fitting, one a fold of the training part, each without
its fold; for the figures, one on the whole training part, asked about the validation part. The test part is not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.gate_world import Answers, Asked, Captions, Evidence, TagIndex, World
from benchmarks.quality import Collection, cached, load, made_names, part, read_table
from lodestone.evaluation.splits import split_by_hash
from lodestone.models.cache import ModelCache, fingerprint
from lodestone.models.context import ModelContext
from lodestone.query.gate import features
from lodestone.query.weights import SpaceWeights
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.spaces.labels import LabelSpace
from lodestone.tags.confidence import evidence
from lodestone.text_encoders.labels import imagenet_labels
from lodestone.text_encoders.registry import make_text_encoder
from lodestone.training.bridge import train_bridge
from lodestone.training.classes import TEMPLATES, class_pairs, class_texts, classifiers
from lodestone.training.complexity import Observation
from lodestone.training.confidence import JudgedAnswer

FOLDS = 3
SHARES = (0.0, 0.1, 0.3, 1.0)  # of the pictures that have captions
SIZES = (300, 500, 1000)
JUDGED = 5  # pictures of an answer that confidence is fitted to


@dataclass(frozen=True)
class Scene:
    """One collection: the pictures' captions, one row each, and the queries made of class names."""

    world: World
    words: list[str]
    vectors: np.ndarray
    owner: np.ndarray
    position: np.ndarray  # 0 to 4: which of its picture's captions
    names: Asked

    def asked(self, position: int) -> Asked:
        """One caption of each picture as a query."""
        rows = np.flatnonzero(self.position == position)
        return Asked([self.words[row] for row in rows], self.vectors[rows], self.owner[rows])

    def captions(self, share: float, seed: int, *, first: int = 4) -> Captions | None:
        """The first captions of a random share of the pictures."""
        had = np.zeros(self.world.n, bool)
        had[np.random.default_rng(seed).permutation(self.world.n)[: round(share * self.world.n)]] = True
        rows = np.flatnonzero((self.position < first) & had[self.owner])
        if not len(rows):
            return None
        return Captions(self.vectors[rows], self.owner[rows], np.array([len(self.words[row].split()) for row in rows]))


class Data:
    """Everything that is computed once.

    Args:
        folder: With `captions.tsv` and `images/`.
        cache: Outputs, text vectors and bridges are kept here.
        evidence: See `World`.
    """

    def __init__(self, folder: Path, cache: Path, *, evidence: Evidence) -> None:
        cache.mkdir(parents=True, exist_ok=True)
        context = ModelContext(cache=ModelCache(cache / "models"), threads=2)
        rows = read_table(folder / "captions.tsv", "caption")
        split = split_by_hash(name for name, _ in rows)
        names = split.train + split.validation + split.test
        self._whole = load(context, cache, "captions", rows=rows, folder=folder / "images", names=names)
        self._words = [text for _, text in rows]
        self._train, self._validation = len(split.train), len(split.validation)
        self._labels = LabelSpace(context)
        self._labels.warm_up()
        encoder = make_text_encoder("minilm", context)

        def encode_classes() -> dict[str, np.ndarray]:
            encoder.warm_up()
            return {"texts": class_texts(encoder)}

        self._classes = cached(cache, f"classes-{fingerprint(*imagenet_labels(), *TEMPLATES)}", encode_classes)["texts"]
        self._cache, self._evidence = cache, evidence
        self._rule = SpaceWeights.from_header(BridgeWeights.shipped().query_weights)

    def validation(self) -> Scene:
        """The validation part."""
        rows = np.arange(self._train, self._train + self._validation)
        return self._scene(rows, self._bridge("trained-0", np.arange(self._train)))

    def folds(self) -> Iterator[Scene]:
        """Collections of the training part, of several sizes."""
        fold = np.arange(self._train) % FOLDS
        for number in range(FOLDS):
            bridge = self._bridge(f"fold-{number}", np.flatnonzero(fold != number))
            mine = np.flatnonzero(fold == number)
            for size in SIZES:
                yield self._scene(mine[:size], bridge)

    def _bridge(self, name: str, rows: np.ndarray) -> BridgeWeights:
        path = self._cache / f"{name}.safetensors"
        if not path.exists():
            what = part(self._whole, rows)
            classes = class_pairs(what.outputs, classifiers(), self._classes, seed=0)
            train_bridge(what.outputs, what.texts, what.owner, classes=classes, seed=0)[0].save_as(path)
        return BridgeWeights.load(path)

    def _scene(self, rows: np.ndarray, bridge: BridgeWeights) -> Scene:
        what: Collection = part(self._whole, rows)
        words = [text for text, asked in zip(self._words, np.isin(self._whole.owner, rows), strict=True) if asked]
        seen: dict[int, int] = {}
        position = np.empty(len(words), int)
        for row, owner in enumerate(what.owner):
            position[row] = seen.get(owner, 0)
            seen[owner] = position[row] + 1
        named = made_names(what, self._classes)
        world = World(what, bridge, self._labels, self._rule, evidence=self._evidence)
        return Scene(world, words, what.texts, what.owner, position, Asked([""] * len(named.owner), named.texts, named.owner))


def used(scene: Scene, asked: Asked, seed: int) -> TagIndex:
    """Tags as use leaves them: of three in ten pictures two other captions, of one in seven queries the very words.

    One in ten lies on another picture, and is less sure.
    """
    rng = np.random.default_rng(seed)
    tags: dict[int, list[tuple[str, float]]] = {}
    for row, truth in enumerate(asked.truth):
        texts = [scene.words[one] for one in np.flatnonzero((scene.owner == truth) & (scene.position < 2))]
        said = (texts if rng.random() < 0.3 else []) + ([asked.words[row]] if rng.random() < 0.15 else [])
        right = rng.random() >= 0.1
        on = int(truth) if right else int(rng.integers(scene.world.n))
        tags.setdefault(on, []).extend((text, 1.0 if right else 0.8) for text in said)
    return TagIndex(scene.world.ids, tags)


def observations(scene: Scene, number: int) -> Iterator[Observation]:
    """Judged queries of one collection: captions and names, with and without captions, tags and either space."""
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
    """One observation a query."""
    for methods, text, guided, truth in zip(answers.methods, answers.text, answers.guided, asked.truth, strict=True):
        yield Observation(features(methods), float(text), float(guided), f"{number}/{truth}")


def judged(answers: Answers, asked: Asked) -> Iterator[JudgedAnswer]:
    """What the confidence in pictures is fitted to: answers that had guides."""
    for row in np.flatnonzero(answers.guides > 0):
        found = evidence(answers.scores[row], guides=float(answers.guides[row]), most=JUDGED)
        right = answers.ranked[row][: len(found)] == asked.truth[row]
        yield JudgedAnswer(found, right, float(answers.guided[row]))
