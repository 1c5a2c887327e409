"""Label space: class probabilities of a picture, turned into a vector in the text encoder's space.

ConSE (Norouzi et al., 2013): a picture's vector is the sum of its most probable classes' text vectors, weighted by their
probability. The probabilities are the mean over the backbones. Label vectors and queries are taken relative to the mean label
vector, because what all labels have in common says nothing about any picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.backbones.registry import make_backbone
from lodestone.models.cache import fingerprint
from lodestone.models.context import ModelContext
from lodestone.spaces.base import Projection, Vectors
from lodestone.text_encoders.labels import imagenet_labels
from lodestone.text_encoders.registry import make_text_encoder

TOP_CLASSES: Final = 50
BACKBONES: Final = ("efficientnet-lite0", "efficientnet-lite2")
_FORMULA: Final = "1"  # raise it when the same inputs would give other vectors


class LabelSpace(Projection):
    """Projects pictures and texts to 384 dimensions, MiniLM's space relative to the mean label, under the name `labels`.

    Args:
        context: Cache and threads.
        backbones: ImageNet-1k classifiers whose probabilities are averaged.
        top: Number of a picture's most probable classes that count.
    """

    name = "labels"
    dim = 384
    text_encoder = "minilm"

    def __init__(self, context: ModelContext, *, backbones: Sequence[str] = BACKBONES, top: int = TOP_CLASSES) -> None:
        self._context = context
        self._top = top
        self.requires = tuple(OutputKey(backbone, "probabilities") for backbone in backbones)
        self._vectors: Vectors | None = None

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
        """Read the label vectors; the first time, the text encoder is loaded to make them (about a second)."""
        if self._vectors is None:
            path = self._context.cache.obtain("imagenet-labels", key=self._labels_key, suffix=".npy", build=self._encode)
            self._vectors = np.load(path, allow_pickle=False)

    def _encode(self, target: Path) -> None:
        encoder = make_text_encoder(self.text_encoder, self._context)
        encoder.warm_up(threads=self._context.threads)
        np.save(target, encoder.encode(imagenet_labels()), allow_pickle=False)

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
        """Return the vectors of n texts from their (n, 384) float32 rows of MiniLM: (n, 384) float32, L2-normalised."""
        return _unit(encoded - self._centre)

    def label_similarity(self, encoded: Vectors) -> NDArray[np.float32]:
        """Return each text's cosine to the nearest class name: (n, 384) rows of MiniLM -> (n,) float32.

        Close to 1, the text names a class and label matching can be trusted. A low value means that no class describes the
        text.
        """
        nearest: NDArray[np.float32] = (encoded @ self.label_vectors.T).max(1, initial=-1)
        return nearest


def _unit(rows: NDArray[np.float32]) -> Vectors:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Vectors = (rows / np.maximum(norms, np.finfo(np.float32).tiny)).astype(np.float32, copy=False)
    return unit
