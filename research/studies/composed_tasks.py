"""Constructed composed queries over captioned photos, with different right weights of picture and words.

Every photo of the set is searched. Its look is the unit vector of an image model's features, its words are the normalised mean
of the vectors of all its captions but the first. Queries about a photo, which is the only right answer:

    words dominate     the photo's first caption, which is not indexed, with a photo that looks a little like it: one of its
                       201st to 400th neighbours by look
    picture dominates  a blurred crop of a third of the photo, with a caption of a photo that is described a little like it: one
                       of its 51st to 150th neighbours by words
    three modalities   the crop in two image models, of which one is weaker, with the photo's first caption cut to three words

Queries about the photos of one part are learnt from, those about another part are the figures'. Nothing is trained on any of
them: the image models know ImageNet, the text encoder knows sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image, ImageFilter

from lodestone.backbones.base import OutputKey
from lodestone.backbones.registry import make_backbone
from lodestone.config.settings import ModelSettings
from lodestone.models.cache import ModelCache, fingerprint
from lodestone.models.context import ModelContext
from lodestone.spaces.bridge_arrays import BACKBONES, TEXT_ENCODER
from lodestone.text_encoders.registry import make_text_encoder
from lodestone.training.joint_pairs import JointPairs, ObjectVectors, PartVectors
from lodestone_eval.datasets.plain import split_by_hash
from research.fits.quality import cached, load, read_table

WORDS: Final = "words dominate"
PICTURE: Final = "picture dominates"
THREE: Final = "three modalities"
TASKS: Final = (WORDS, PICTURE, THREE)
_NEAR: Final = {WORDS: (200, 400), PICTURE: (50, 150)}
_CROP: Final = 0.33
_BLUR_PX: Final = 3
_CAPTIONS: Final = 5
_FIRST_WORDS: Final = 3


@dataclass(frozen=True, slots=True)
class Task:
    """One kind of queries: those to learn from, and those that figures are made of.

    Attributes:
        name: One of `TASKS`.
        learning: Queries about photos of the training part.
        asked: Queries about photos of another part.
    """

    name: str
    learning: JointPairs
    asked: JointPairs


def make_tasks(data: Path, cache: Path, *, which: str, queries: int, seed: int = 0) -> list[Task]:
    """Embed photos, crops and captions, or read them from the cache, and make the tasks.

    Args:
        data: Holds flickr8k-train (captions.tsv, images).
        cache: Keeps vectors between runs.
        which: Part of the photos that figures are about: validation or test.
        queries: Photos of the training part that queries to learn from are about.
        seed: Chooses the neighbours.
    """
    rng = np.random.default_rng(seed)
    context = ModelContext(cache=ModelCache(ModelSettings().cache), threads=1)
    folder = data / "flickr8k-train" / "images"
    rows = read_table(data / "flickr8k-train" / "captions.tsv", "caption")
    split = split_by_hash(name for name, _ in rows)
    names = split.train + split.validation + split.test
    collection = load(context, cache, "captions", rows=rows, folder=folder, names=names)
    place = {name: row for row, name in enumerate(names)}
    learnt = np.array([place[name] for name in split.train[:queries]], np.intp)
    asked = np.array([place[name] for name in getattr(split, which)], np.intp)
    about = np.concatenate([learnt, asked])

    looks = [unit(collection.outputs[OutputKey(backbone, "features")]) for backbone in BACKBONES]
    order = np.argsort(collection.owner, kind="stable").reshape(len(names), _CAPTIONS)
    first = collection.texts[order[:, 0]]
    words = unit(collection.texts[order[:, 1:]].mean(axis=1))
    crops = [unit(_crops(context, cache, folder, [names[row] for row in about], backbone)) for backbone in BACKBONES]
    short = [" ".join(rows[row][1].split()[:_FIRST_WORDS]) for row in order[about, 0]]
    few = _encoded(context, cache, short)
    objects = ObjectVectors({"look": looks[0], "look2": looks[1], "words": words})
    vectors = {
        WORDS: {"look": looks[0][_neighbour(looks[0], about, _NEAR[WORDS], rng)], "words": first[about]},
        PICTURE: {"look": crops[0], "words": first[_neighbour(words, about, _NEAR[PICTURE], rng)]},
        THREE: {"look": crops[0], "look2": crops[1], "words": few},
    }
    tasks = []
    for name, by_space in vectors.items():
        parts = tuple(PartVectors(space, space, rows_of) for space, rows_of in by_space.items())
        none = [np.empty(0, np.intp)] * len(about)
        pairs = JointPairs(parts, objects, [np.array([row]) for row in about], none)
        tasks.append(Task(name, pairs.take(np.arange(len(learnt))), pairs.take(np.arange(len(learnt), len(about)))))
    return tasks


def unit(rows: np.ndarray) -> np.ndarray:
    """Return (n, dim) float32 rows of length 1."""
    values = rows.astype(np.float32)
    units: np.ndarray = values / np.linalg.norm(values, axis=1, keepdims=True)
    return units


def _neighbour(rows: np.ndarray, about: np.ndarray, ranks: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Return for each photo one of its neighbours of these ranks, the photo itself being the 0th."""
    chosen = np.empty(len(about), np.intp)
    drawn = rng.integers(*ranks, len(about)) + 1
    for i, row in enumerate(about):
        chosen[i] = np.argsort(-(rows @ rows[row]), kind="stable")[drawn[i]]
    return chosen


def _crops(context: ModelContext, cache: Path, folder: Path, names: Sequence[str], backbone_name: str) -> np.ndarray:
    """Return the features of a blurred crop of each photo, the same one in every run."""

    def make() -> dict[str, np.ndarray]:
        backbone = make_backbone(backbone_name, context)
        backbone.warm_up()
        features = []
        for name in names:
            rng = np.random.default_rng([int(byte) for byte in name.encode()])
            with Image.open(folder / name) as image:
                picture = image.convert("RGB")
            width, height = (round(side * _CROP**0.5) for side in picture.size)
            left = int(rng.integers(0, picture.width - width + 1))
            top = int(rng.integers(0, picture.height - height + 1))
            crop = picture.crop((left, top, left + width, top + height)).filter(ImageFilter.GaussianBlur(_BLUR_PX))
            features.append(backbone.embed(np.stack([backbone.prepare(crop)]))["features"][0])
        return {"features": np.stack(features)}

    return cached(cache, f"crops-{_CROP}-{_BLUR_PX}-{backbone_name}-{fingerprint(*names)}", make)["features"]


def _encoded(context: ModelContext, cache: Path, texts: Sequence[str]) -> np.ndarray:
    def make() -> dict[str, np.ndarray]:
        encoder = make_text_encoder(TEXT_ENCODER, context)
        encoder.warm_up()
        return {"vectors": encoder.encode(list(texts))}

    return cached(cache, f"first-words-{fingerprint(*texts)}", make)["vectors"]
