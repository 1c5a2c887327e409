"""What does a trained bridge consist of? Arrays, a header, and the plain NumPy maps that use them.

Pictures: features and class probabilities of the backbones -> standardised -> rotated to their first principal components
-> two heads: a ridge map into the text encoder's space, and picture towers side by side. Texts: the text encoder's vector ->
the same two heads. Each head's vector has length 1; the joint vector is their concatenation with fixed weights, scaled to
length 1, so that one inner product is the weighted mean of the heads' cosines.

Some pictures are near to every text (hubs; Radovanovic et al., 2010). A picture's mean cosine to the nearest of the texts that
the bridge was taught is subtracted from its score, in part (as in CSLS; Conneau et al., 2018). That stays one inner product:
pictures have the penalty as one more component, texts -1, and a last component makes all pictures' vectors equally long.

Nothing here imports torch. In the file arrays are float16 (the statistics, which span many magnitudes, float16 after
scaling); arithmetic is float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import BackboneOutputs
from lodestone.models.weights_file import WeightsFile, digest_of
from lodestone.spaces.base import Vectors
from lodestone.spaces.bridge_arrays import BACKBONES, Array, Rehearsal, Statistics, Tower, picture_columns, standardised, unit

FILE: Final = WeightsFile("bridge", format=1)
TEXT_ENCODER: Final = "minilm"
HUB_NEIGHBOURS: Final = 10  # texts that a picture's closeness is taken over
HUB_SHARE: Final = 0.3  # how much of the closeness is subtracted; both chosen on the validation part (docs/quality.md)
# Vectors do not depend on these: they are for updates.
_FOR_UPDATES: Final = ("statistics.", "residual", "rehearsal.picture", "rehearsal.text_spread", "rehearsal.counts")


@dataclass(frozen=True)
class BridgeWeights:
    """A trained bridge; immutable. See the module's docstring for the arithmetic.

    Attributes:
        mean: (columns,) of the training pictures. spread: (columns,) standard deviation, floored.
        basis: (columns, k) principal components. residual: (columns,) variance of what they leave of each column.
        text_centre: (d,) mean text vector.
        ridge: (k, d) map from principal components to text vectors relative to their centre. ridge_bias: (d,).
        picture: The picture towers, from k. text: The text towers, from d; the i-th of both were trained together.
        ridge_share: Weight of the ridge's cosine in the joint cosine, in [0, 1].
        text_gain: The text tower reads (vector - centre) * text_gain.
        statistics: For exact updates of the ridge.
        rehearsal: For updates of the towers.
        query_weights: JSON-serialisable parameters of the per-query weights between spaces (query/weights.py); empty:
            not fitted.
        provenance: JSON-serialisable: data, licence, settings, figures.
    """

    mean: Array
    spread: Array
    basis: Array
    residual: Array
    text_centre: Array
    ridge: Array
    ridge_bias: Array
    picture: tuple[Tower, ...]
    text: tuple[Tower, ...]
    ridge_share: float
    text_gain: float
    statistics: Statistics
    rehearsal: Rehearsal
    query_weights: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    backbones: tuple[str, ...] = BACKBONES
    text_encoder: str = TEXT_ENCODER

    @property
    def dim(self) -> int:
        """Length of a vector: the heads' and two components against hubs."""
        return int(self.ridge.shape[1]) + sum(len(tower.bias) for tower in self.picture) + 2

    def components(self, outputs: BackboneOutputs) -> Array:
        """Outputs of n pictures -> (n, k) float32 principal components."""
        columns = picture_columns(outputs, self.backbones)
        components: Array = standardised(columns, self.mean, self.spread) @ self.basis
        return components

    def picture_parts(self, components: Array) -> tuple[Array, Array]:
        """(n, k) principal components -> the ridge's (n, d) and the tower's (n, out) vectors, both L2-normalised."""
        return unit(components @ self.ridge + self.ridge_bias), _side_by_side(self.picture, components)

    def text_parts(self, encoded: Array) -> tuple[Array, Array]:
        """(n, d) text vectors -> the ridge's (n, d) and the tower's (n, out) vectors, both L2-normalised."""
        centred = encoded - self.text_centre
        return unit(centred), _side_by_side(self.text, centred * np.float32(self.text_gain))

    def join(self, parts: tuple[Array, Array]) -> Vectors:
        """Both heads' vectors -> (n, dim) float32, L2-normalised: inner products are weighted means of cosines."""
        ridge, tower = parts
        first, second = np.float32(self.ridge_share**0.5), np.float32((1 - self.ridge_share) ** 0.5)
        return unit(np.hstack([first * ridge, second * tower]))

    def pictures(self, outputs: BackboneOutputs) -> Vectors:
        """Outputs of n pictures -> (n, dim) float32, L2-normalised."""
        return self.from_components(self.components(outputs))

    def from_components(self, components: Array) -> Vectors:
        """(n, k) principal components -> (n, dim) float32, L2-normalised."""
        joint = self.join(self.picture_parts(components))
        asked = self._asked
        near = min(HUB_NEIGHBOURS, len(asked))
        closeness = np.partition(joint @ asked.T, -near, axis=1)[:, -near:].mean(1, keepdims=True)
        penalty = np.float32(HUB_SHARE) * np.clip(closeness, 0, 1)
        rest = np.sqrt(np.maximum(np.float32(HUB_SHARE**2) - penalty**2, 0))  # makes all vectors equally long
        return unit(np.hstack([joint, penalty, rest]))

    @cached_property
    def _asked(self) -> Array:
        """The training pairs' texts as queries, which vectors of pictures should not all be near to."""
        return self.join(self.text_parts(self.rehearsal.texts))

    def texts(self, encoded: Array) -> Vectors:
        """(n, d) text vectors -> (n, dim) float32, L2-normalised."""
        joint = self.join(self.text_parts(encoded))
        return unit(np.hstack([joint, np.full((len(joint), 1), -1, np.float32), np.zeros((len(joint), 1), np.float32)]))

    def familiarity(self, encoded: Array) -> Array:
        """(n, d) text vectors -> (n,) highest cosine to the mean text of a group of training pairs: how well known they are."""
        similarity: Array = (encoded @ unit(self.rehearsal.texts).T).max(1)
        return similarity

    @cached_property
    def version(self) -> str:
        """12 hex characters over all arrays and parameters that vectors depend on: not provenance, not query weights.

        The arrays are hashed as they are stored, so that weights before and after `save` have one version.
        """
        parameters = [FILE.format, HUB_NEIGHBOURS, HUB_SHARE, *self._parameters().values()]
        return digest_of(parameters, self._arrays(), except_for=_FOR_UPDATES)

    def save(self, directory: Path) -> Path:
        """Write `bridge-<version>.safetensors` into `directory` (made if needed), by temporary name and rename.

        Returns:
            The file's path. Saving the same weights again writes the same file.
        """
        return FILE.save(directory, self._arrays(), self._header(), version=self.version)

    def save_as(self, path: Path) -> Path:
        """Write to exactly `path`, by temporary name and rename."""
        return FILE.save_as(path, self._arrays(), self._header())

    @classmethod
    def shipped(cls) -> BridgeWeights:
        """The weights inside the package: `data/bridge/`, beside their model card."""
        return cls._from_arrays(*FILE.shipped())

    @classmethod
    def load(cls, path: Path) -> BridgeWeights:
        """Read a file that `save` wrote.

        Raises:
            ConfigurationError: the file is missing, damaged, or of another format.
        """
        return cls._from_arrays(*FILE.load(path))

    @classmethod
    def _from_arrays(cls, stored: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> BridgeWeights:
        arrays = {name: array.astype(np.float32) for name, array in stored.items()}

        def group(prefix: str) -> dict[str, Array]:
            return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}

        try:
            weight = float(header["statistics_weight"])
            sums = group("statistics.")
            return cls(
                **{name: array for name, array in arrays.items() if "." not in name},
                picture=tuple(Tower(**group(f"picture.{i}.")) for i in range(header["members"])),
                text=tuple(Tower(**group(f"text.{i}.")) for i in range(header["members"])),
                statistics=Statistics(
                    _symmetric(sums["gram"]) * (weight * float(header["gram_scale"])), sums["cross"] * weight, weight
                ),
                rehearsal=Rehearsal(**group("rehearsal.")),
                ridge_share=header["ridge_share"],
                text_gain=header["text_gain"],
                backbones=tuple(header["backbones"]),
                text_encoder=header["text_encoder"],
                query_weights=header["query_weights"],
                provenance=header["provenance"],
            )
        except (KeyError, TypeError, ValueError) as error:  # the arrays of another layout under the same format number
            raise FILE.other_arrays(error) from error

    @property
    def _gram_scale(self) -> float:
        """Brings the largest mean of squares to 1,000: half precision ends at 65,504."""
        return max(float(np.abs(self.statistics.gram).max()) / max(self.statistics.weight, 1.0), 1e-6) / 1000

    def _header(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "query_weights": dict(self.query_weights),
            "provenance": dict(self.provenance),
            "statistics_weight": self.statistics.weight,
            "gram_scale": self._gram_scale,
        } | self._parameters()

    def _parameters(self) -> dict[str, Any]:
        return {
            "ridge_share": self.ridge_share,
            "text_gain": self.text_gain,
            "members": len(self.picture),
            "backbones": list(self.backbones),
            "text_encoder": self.text_encoder,
        }

    def _arrays(self) -> dict[str, NDArray[np.float16]]:
        """Everything that goes to the file, in half precision; sums become means, which half precision can hold."""
        flat: dict[str, Array] = {name: getattr(self, name) for name in _PLAIN}
        for prefix, towers in (("picture", self.picture), ("text", self.text)):
            for i, tower in enumerate(towers):
                flat |= {f"{prefix}.{i}.{name}": getattr(tower, name) for name in Tower.__slots__}
        flat |= {f"rehearsal.{name}": getattr(self.rehearsal, name) for name in Rehearsal.__slots__}
        weight = max(self.statistics.weight, 1.0)
        flat["statistics.gram"] = (self.statistics.gram / (weight * self._gram_scale))[
            np.triu_indices(len(self.statistics.gram))
        ]
        flat["statistics.cross"] = self.statistics.cross / weight
        return {name: np.ascontiguousarray(array, np.float16) for name, array in flat.items()}


_PLAIN: Final = ("mean", "spread", "basis", "residual", "text_centre", "ridge", "ridge_bias")


def _side_by_side(towers: tuple[Tower, ...], rows: Array) -> Array:
    """Every tower's vector beside the others', scaled to length 1 together: cosines are the mean of the towers' cosines."""
    return unit(np.hstack([tower(rows) for tower in towers]))


def _symmetric(upper: Array) -> Array:
    """The packed upper triangle of a symmetric matrix -> the matrix."""
    size = int(((8 * len(upper) + 1) ** 0.5 - 1) / 2)
    full = np.zeros((size, size), np.float32)
    full[np.triu_indices(size)] = upper
    return full + np.triu(full, 1).T
