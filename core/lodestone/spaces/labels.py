"""Label space: class probabilities of a picture, turned into a vector in the text encoder's space.

ConSE (Norouzi et al., 2013): a picture's vector is the sum of its most probable classes' text vectors, weighted by their
probability. The probabilities are the mean over the backbones. Label vectors and queries are taken relative to the mean label
vector, because what all labels have in common says nothing about any picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.backbones.registry import make_backbone
from lodestone.models.cache import fingerprint
from lodestone.models.context import ModelContext
from lodestone.spaces.base import Projection, Vectors
from lodestone.text_encoders.labels import imagenet_labels
from lodestone.text_encoders.registry import TEXT_ENCODERS, make_text_encoder

TOP_CLASSES: Final = 50
TEXT_ENCODER: Final = "minilm"
BACKBONES: Final = ("efficientnet-lite0", "efficientnet-lite2")
NAME_FORMS: Final = ("{}", "a photo of {}")  # beside the name itself, filled with article and name
_FORMULA: Final = "1"  # raise it when the same inputs would give other vectors


class LabelSpace(Projection):
    """Projects pictures and texts into a text encoder's space, relative to the mean label, under the name `labels`.

    Args:
        context: Cache and threads.
        backbones: ImageNet-1k classifiers whose probabilities are averaged.
        top: Number of a picture's most probable classes that count.
        text_encoder: The profile's text encoder, if it is one for sentences; else MiniLM is used (`encoder_of_labels`).
    """

    name = "labels"
    dim = 384

    def __init__(
        self,
        context: ModelContext,
        *,
        backbones: Sequence[str] = BACKBONES,
        top: int = TOP_CLASSES,
        text_encoder: str = TEXT_ENCODER,
    ) -> None:
        self._context = context
        self.text_encoder: str = encoder_of_labels(text_encoder)
        self._top = top
        self.requires = tuple(OutputKey(backbone, "probabilities") for backbone in backbones)
        self._vectors: Vectors | None = None
        self._names: Vectors | None = None

    @cached_property
    def _labels_key(self) -> str:
        encoder = make_text_encoder(self.text_encoder, self._context)
        return fingerprint(encoder.version, *imagenet_labels())

    @cached_property
    def version(self) -> str:
        """Return a hash of the backbones', the text encoder's and the labels' versions; no model is loaded for it."""
        versions = [make_backbone(key.backbone, self._context).version for key in self.requires]
        return fingerprint(_FORMULA, str(self._top), self._labels_key, *versions)[:12]

    def warm_up(self) -> None:
        """Read the label vectors; the first time, the text encoder is loaded to make them (a few seconds)."""
        if self._vectors is None or self._names is None:
            obtain, key = self._context.cache.obtain, self._labels_key
            self._vectors = np.load(obtain("imagenet-labels", key=key, suffix=".npy", build=self._encode), allow_pickle=False)
            key = fingerprint(key, *NAME_FORMS)
            names = np.load(obtain("imagenet-names", key=key, suffix=".npy", build=self._encode_names), allow_pickle=False)
            self._names = np.vstack([self._vectors, names.astype(np.float32)])

    def _encode(self, target: Path) -> None:
        self._encode_texts(target, imagenet_labels(), np.float32)

    def _encode_names(self, target: Path) -> None:
        self._encode_texts(target, [text for form in NAME_FORMS for text in name_texts(form)], np.float16)

    def _encode_texts(self, target: Path, texts: Sequence[str], stored: type[np.floating[Any]]) -> None:
        encoder = make_text_encoder(self.text_encoder, self._context)
        encoder.warm_up(threads=self._context.threads)
        np.save(target, encoder.encode(list(texts)).astype(stored, copy=False), allow_pickle=False)

    @property
    def label_vectors(self) -> Vectors:
        """Return the text vectors of the labels: (1000, 384) float32, L2-normalised, not centred.

        Raises:
            RuntimeError: `warm_up` was not called.
        """
        if self._vectors is None:
            raise RuntimeError(f"{self.name}: call warm_up() first")
        return self._vectors

    @cached_property
    def _centre(self) -> NDArray[np.float32]:
        centre: NDArray[np.float32] = self.label_vectors.mean(0)
        return centre

    @cached_property
    def _centred(self) -> Vectors:
        return self.label_vectors - self._centre

    def project(self, outputs: BackboneOutputs) -> Vectors:
        """Return the vectors of n pictures from their class probabilities: (n, 384) float32, L2-normalised."""
        total = np.zeros((outputs.rows, len(self.label_vectors)), np.float32)
        for key in self.requires:
            total += outputs[key]
        others = np.argpartition(-total, self._top, axis=1)[:, self._top :] if self._top < total.shape[1] else None
        if others is not None:
            np.put_along_axis(total, others, 0, axis=1)
        return _unit(total @ self._centred)

    def project_texts(self, encoded: Vectors) -> Vectors:
        """Return the vectors of n texts from their (n, 384) float32 rows of the encoder: (n, 384) float32, L2-normalised."""
        return _unit(encoded - self._centre)

    def nearest_labels(self, vectors: Vectors, count: int) -> list[list[tuple[str, float]]]:
        """Return for each of n pictures its nearest class names with their cosines, nearest first.

        Args:
            vectors: (n, 384) float32 of this space, as `project` returns them.
            count: Most names of one picture, >= 1.
        """
        cosines = vectors @ _unit(self._centred).T
        names = imagenet_labels()
        nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
        return [[(names[column], float(row[column])) for column in order] for row, order in zip(cosines, nearest, strict=True)]

    def label_similarity(self, encoded: Vectors) -> NDArray[np.float32]:
        """Return each text's cosine to the nearest class name: (n, 384) rows of the encoder -> (n,) float32.

        Close to 1, the text names a class and label matching can be trusted. A low value means that no class describes the
        text.
        """
        nearest: NDArray[np.float32] = (encoded @ self.label_vectors.T).max(1, initial=-1)
        return nearest

    def name_similarity(self, encoded: Vectors) -> NDArray[np.float32]:
        """Return each text's cosine to the nearest class name, bare or in one of `NAME_FORMS`.

        From about .96 on, the text is nothing but a class name: no caption of Flickr8k's validation photos comes above .79.

        Args:
            encoded: (n, 384) rows of MiniLM.

        Returns:
            (n,) float32.

        Raises:
            RuntimeError: `warm_up` was not called.
        """
        if self._names is None:
            raise RuntimeError(f"{self.name}: call warm_up() first")
        nearest: NDArray[np.float32] = (encoded @ self._names.T).max(1, initial=-1)
        return nearest


def name_texts(form: str) -> list[str]:
    """Return all class names with their articles in one of `NAME_FORMS`."""
    return [form.format(("an " if name[0].lower() in "aeiou" else "a ") + name) for name in imagenet_labels()]


def encoder_of_labels(text_encoder: str) -> str:
    """Return the text encoder of label matching under a profile with this one.

    It is the same if it is a sentence encoder, whose vectors have 384 dimensions. The text tower of an image model knows its
    own pictures only, so MiniLM stands in for it.
    """
    return text_encoder if text_encoder in TEXT_ENCODERS else TEXT_ENCODER


def _unit(rows: NDArray[np.float32]) -> Vectors:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Vectors = (rows / np.maximum(norms, np.finfo(np.float32).tiny)).astype(np.float32, copy=False)
    return unit
