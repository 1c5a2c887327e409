"""The bridge space: frozen image and text features, mapped into one space that was trained on captions.

Two heads give one vector (spaces/bridge_weights.py): a ridge regression onto text vectors, as in embedding regression since
DeViSE (Frome et al., 2013), and two small towers trained with the symmetric contrastive loss of CLIP (Radford et al., 2021).
Inference is plain NumPy.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np

from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.backbones.registry import make_backbone
from lodestone.models.cache import fingerprint
from lodestone.models.context import ModelContext
from lodestone.spaces.base import Projection, Vectors
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.text_encoders.registry import make_text_encoder


class BridgeSpace(Projection):
    """Projects pictures and texts into one space, under the name `bridge`; its file names the models that it reads.

    It is better than label matching for sentences, and weaker for object names.

    Args:
        context: Cache, threads, and the name of the bridge that ships for the profile.
        weights: A file written by `BridgeWeights.save`, or the weights themselves; None for those that ship.
    """

    name = "bridge"

    def __init__(self, context: ModelContext, *, weights: Path | BridgeWeights | None = None) -> None:
        self._context = context
        self._source = weights

    @property
    def shipped_file(self) -> str | None:
        """Return the name of the weights' file if they are those that ship for a profile, else None."""
        return self._context.bridge if self._source is None else None

    @cached_property
    def weights(self) -> BridgeWeights:
        """Return the weights, which are read from their file at the first use (tens of milliseconds).

        Raises:
            ConfigurationError: the file is missing or damaged.
        """
        if isinstance(self._source, BridgeWeights):
            return self._source
        return BridgeWeights.shipped(self._context.bridge) if self._source is None else BridgeWeights.load(self._source)

    @property
    def text_encoder(self) -> str:  # type: ignore[override]  # known only once the weights are read
        """Return the name of the text encoder whose vectors the weights were trained on."""
        return self.weights.inputs.text_encoder

    @property
    def requires(self) -> tuple[OutputKey, ...]:  # type: ignore[override]  # known only once the weights are read
        """Return the keys of the features and probabilities of the backbones that the weights were trained on."""
        return self.weights.inputs.required

    @property
    def dim(self) -> int:  # type: ignore[override]  # known only once the weights are read
        """Return the length of a vector: 384 for the ridge, the towers' length, and two components against hubs."""
        return self.weights.dim

    @cached_property
    def version(self) -> str:
        """Return a hash of the weights and of the versions of the backbones and the text encoder; no model is loaded for it."""
        weights = self.weights
        models = [make_backbone(name, self._context).version for name in weights.inputs.backbones]
        return fingerprint(weights.version, make_text_encoder(self.text_encoder, self._context).version, *models)[:12]

    def warm_up(self) -> None:
        """Read the weights from their file."""
        _ = self.weights

    def project(self, outputs: BackboneOutputs) -> Vectors:
        """Return the vectors of n pictures from their features and probabilities: (n, dim) float32, L2-normalised."""
        if outputs.rows == 0:
            return np.empty((0, self.dim), np.float32)
        return self.weights.pictures(outputs)

    def project_texts(self, encoded: Vectors) -> Vectors:
        """Return the vectors of n texts from their (n, d) float32 rows of the text encoder: (n, dim) float32, L2-normalised."""
        return self.weights.texts(encoded)
