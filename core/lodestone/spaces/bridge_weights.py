"""Weights of a trained bridge: arrays, a header, and the plain NumPy maps that use them.

Pictures: features and class probabilities of the backbones are standardised and rotated to their first principal components.
Two heads follow: a ridge map into the text encoder's space, and picture towers side by side. Texts: the text encoder's vector
goes into the same two heads. Each head's vector has length 1; the joint vector is their concatenation with fixed weights,
scaled to length 1, so that one inner product is the weighted mean of the heads' cosines.

Some pictures are near to every text (hubs; Radovanovic et al., 2010). A picture's mean cosine to the nearest of the training
texts is subtracted from its score, in part (as in CSLS; Conneau et al., 2018). That is still one inner product: pictures have
the penalty as one more component, texts -1, and a last component makes all pictures' vectors equally long.

Of words that it learnt one by one more is known (spaces/learnt_words.py): a text that is such a word is moved towards it.

Nothing here imports torch. In the file matrices that vectors are computed with are bytes with a scale for each column, and
other arrays float16 (the statistics, which span many magnitudes, after scaling); arithmetic is float32.
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
from lodestone.data import DEFAULT_BRIDGE
from lodestone.models.weights_file import WeightsFile, as_bytes, digest_of, from_bytes
from lodestone.spaces.base import Vectors
from lodestone.spaces.bridge_arrays import (
    BACKBONES,
    TEXT_ENCODER,
    Array,
    BridgeInputs,
    Rehearsal,
    Statistics,
    Tower,
    picture_columns,
    standardised,
    unit,
)
from lodestone.spaces.learnt_words import LearntWords
from lodestone.spaces.sketches import Sketches, no_sketches, recognised, sketches_of

FILE: Final = WeightsFile("bridge", format=2, older=(1,))
HUB_NEIGHBOURS: Final = 10  # nearest texts over which a picture's closeness is averaged
HUB_SHARE: Final = 0.3  # share of the closeness that is subtracted; both were chosen on the validation part (docs/quality.md)
_SEEN: Final = "seen"  # sketches; files that were written before them lack them
_SCALE: Final = ".scale"  # end of the names of scales; files of format 1 have none, all their arrays are float16
_HALVES: Final = ("rehearsal.",)  # matrices that stay float16: training goes on from them
# Vectors do not depend on these arrays, which are used by updates only.
_FOR_UPDATES: Final = ("statistics.", "residual", "rehearsal.picture", "rehearsal.text_spread", "rehearsal.counts", _SEEN)


@dataclass(frozen=True)
class BridgeWeights:
    """Holds a trained bridge; immutable. The module's docstring describes the arithmetic.

    Attributes:
        mean: (columns,) mean of the training pictures. spread: (columns,) standard deviation, with a lower limit. basis:
        (columns, k) principal components. residual: (columns,) variance of each column that the components leave. text_centre:
        (d,) mean text vector. ridge: (k, d) map from principal components to text vectors relative to their centre.
        ridge_bias: (d,) bias of that map. picture: The picture towers, which read k components. text: The text towers, which
        read d dimensions; the i-th of both were trained together. ridge_share: Weight of the ridge's cosine in the joint
        cosine, in [0, 1]. text_gain: The text tower reads (vector - centre) * text_gain. statistics: Sums for exact updates of
        the ridge. rehearsal: Averages for updates of the towers. query_weights: JSON-serialisable parameters of the per-query
        weights between spaces (query/weighting/fitted.py); empty when they
            were not fitted.
        provenance: JSON-serialisable: data, licence, settings, figures.
        backbones: Names of the backbones whose features it reads.
        text_encoder: Name of the text encoder whose vectors it reads.
        classifiers: Names of the backbones whose class probabilities it reads.
        seen: (n, 8) sketches of the pictures that it was trained on (spaces/sketches.py); none where the file lacks them.
        words: Words that it learnt one by one; None where it learnt none.
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
    classifiers: tuple[str, ...] = BACKBONES
    seen: Sketches = field(default_factory=no_sketches)
    words: LearntWords | None = None

    @property
    def inputs(self) -> BridgeInputs:
        """Return the names of all that it reads."""
        return BridgeInputs(self.backbones, self.classifiers, self.text_encoder)

    @property
    def dim(self) -> int:
        """Return the length of a vector: that of the heads plus two components against hubs."""
        return int(self.ridge.shape[1]) + sum(len(tower.bias) for tower in self.picture) + 2

    def components(self, outputs: BackboneOutputs) -> Array:
        """Return the principal components of n pictures: (n, k) float32."""
        columns = picture_columns(outputs, self.inputs)
        components: Array = standardised(columns, self.mean, self.spread) @ self.basis
        return components

    def picture_parts(self, components: Array) -> tuple[Array, Array]:
        """Return the ridge's (n, d) and the towers' (n, out) vectors of (n, k) principal components, both L2-normalised."""
        return unit(components @ self.ridge + self.ridge_bias), _side_by_side(self.picture, components)

    def text_parts(self, encoded: Array) -> tuple[Array, Array]:
        """Return the ridge's (n, d) and the towers' (n, out) vectors of (n, d) text vectors, both L2-normalised."""
        centred = encoded - self.text_centre
        return unit(centred), _side_by_side(self.text, centred * np.float32(self.text_gain))

    def join(self, parts: tuple[Array, Array]) -> Vectors:
        """Return both heads' vectors as one: (n, dim - 2) float32, L2-normalised.

        Inner products are weighted means of cosines.
        """
        ridge, tower = parts
        first, second = np.float32(self.ridge_share**0.5), np.float32((1 - self.ridge_share) ** 0.5)
        return unit(np.hstack([first * ridge, second * tower]))

    def pictures(self, outputs: BackboneOutputs) -> Vectors:
        """Return the vectors of n pictures from their backbone outputs: (n, dim) float32, L2-normalised."""
        return self.from_components(self.components(outputs))

    def from_components(self, components: Array) -> Vectors:
        """Return the vectors of pictures from their (n, k) principal components: (n, dim) float32, L2-normalised."""
        joint = self.join(self.picture_parts(components))
        queries = self._training_queries
        count = min(HUB_NEIGHBOURS, len(queries))
        closeness = np.partition(joint @ queries.T, -count, axis=1)[:, -count:].mean(1, keepdims=True)
        penalty = np.float32(HUB_SHARE) * np.clip(closeness, 0, 1)
        filler = np.sqrt(np.maximum(np.float32(HUB_SHARE**2) - penalty**2, 0))  # makes all vectors equally long
        return unit(np.hstack([joint, penalty, filler]))

    @cached_property
    def _training_queries(self) -> Array:
        """Return the training pairs' texts as query vectors; a picture that is near to all of them is a hub."""
        return self.join(self.text_parts(self.rehearsal.texts))

    def texts(self, encoded: Array) -> Vectors:
        """Return the vectors of texts from their (n, d) text vectors: (n, dim) float32, L2-normalised."""
        joint = self.join(self.text_parts(encoded))
        rows = unit(np.hstack([joint, np.full((len(joint), 1), -1, np.float32), np.zeros((len(joint), 1), np.float32)]))
        return rows if self.words is None else unit(rows + self.words.added_to(encoded))

    def has_seen(self, outputs: BackboneOutputs) -> NDArray[np.bool_]:
        """Return which of n pictures it was trained on, or on copies of: (n,) bool."""
        return recognised(sketches_of(self.components(outputs)), self.seen)

    def familiarity(self, encoded: Array) -> Array:
        """Return how well known texts are: (n, d) text vectors -> (n,) highest cosine to the mean text of a training group."""
        similarity: Array = (encoded @ self._familiar.T).max(1)
        return similarity

    def attainable(self, encoded: Array) -> Array:
        """Return how near pictures of texts come, where there are some: (n, d) text vectors -> (n,) cosines.

        It is the highest cosine of a text to the mean picture of a training group.
        """
        cosines: Array = (self.texts(encoded) @ self._taught_pictures.T).max(1)
        return cosines

    @cached_property
    def _familiar(self) -> Array:
        return unit(self.rehearsal.texts)

    @cached_property
    def _taught_pictures(self) -> Vectors:
        return self.from_components(self.rehearsal.pictures)

    @cached_property
    def version(self) -> str:
        """Return 12 hex characters over all arrays and parameters that vectors depend on, without provenance and query weights.

        The arrays are hashed as they are stored, so that weights before and after `save` have one version.
        """
        return self._version_of(self._arrays())

    def _version_of(self, arrays: Mapping[str, NDArray[Any]], written_as: int = FILE.format) -> str:
        parameters = [written_as, HUB_NEIGHBOURS, HUB_SHARE, *self._parameters().values()]
        return digest_of(parameters, arrays, except_for=_FOR_UPDATES)

    def save(self, directory: Path) -> Path:
        """Write `bridge-<version>.safetensors` into `directory` (made if needed), by temporary name and rename.

        Returns:
            The file's path. Saving the same weights again writes the same file.
        """
        return FILE.save(directory, self._arrays(), self._header(), version=self.version)

    def save_as(self, path: Path) -> Path:
        """Write the weights to exactly `path`, by temporary name and rename."""
        return FILE.save_as(path, self._arrays(), self._header())

    @classmethod
    def shipped(cls, name: str = DEFAULT_BRIDGE) -> BridgeWeights:
        """Return the weights of that name that ship inside the package, in `data/bridge/` beside their model card.

        Raises:
            ConfigurationError: no such file ships.
        """
        return cls._from_arrays(*FILE.shipped(name))

    @classmethod
    def load(cls, path: Path) -> BridgeWeights:
        """Read a file that `save` wrote.

        Raises:
            ConfigurationError: the file is missing, damaged, or of another format.
        """
        return cls._from_arrays(*FILE.load(path))

    @classmethod
    def _from_arrays(cls, stored: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> BridgeWeights:
        def group(prefix: str) -> dict[str, Array]:
            return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}

        try:
            arrays = _numbers(stored)
            weight = float(header["statistics_weight"])
            sums = group("statistics.")
            reads = inputs_of(header)
            weights = cls(
                **{name: array for name, array in arrays.items() if "." not in name},
                picture=tuple(Tower(**group(f"picture.{i}.")) for i in range(header["members"])),
                text=tuple(Tower(**group(f"text.{i}.")) for i in range(header["members"])),
                statistics=Statistics(
                    _symmetric(sums["gram"]) * (weight * float(header["gram_scale"])), sums["cross"] * weight, weight
                ),
                rehearsal=Rehearsal(**group("rehearsal.")),
                ridge_share=header["ridge_share"],
                text_gain=header["text_gain"],
                backbones=reads.backbones,
                text_encoder=reads.text_encoder,
                classifiers=reads.classifiers,
                query_weights=header["query_weights"],
                provenance=header["provenance"],
                seen=stored[_SEEN].astype(np.uint8) if _SEEN in stored else no_sketches(),
                words=LearntWords(**group("words.")) if "words.texts" in arrays else None,
            )
            # The arrays are hashed as they were read, instead of being converted back for it.
            weights.__dict__["version"] = weights._version_of(stored, header["format"])
            return weights
        except (KeyError, TypeError, ValueError) as error:  # the arrays of another layout under the same format number
            raise FILE.other_arrays(error) from error

    @property
    def _gram_scale(self) -> float:
        """Return the scale that brings the largest mean of squares to 1,000, because half precision ends at 65,504."""
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
        parameters: dict[str, Any] = {
            "ridge_share": self.ridge_share,
            "text_gain": self.text_gain,
            "members": len(self.picture),
            "backbones": list(self.backbones),
            "text_encoder": self.text_encoder,
        }
        # The first bridges read the probabilities of all their backbones, and their headers do not say so.
        if self.classifiers != self.backbones:
            parameters["classifiers"] = list(self.classifiers)
        return parameters

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays of the file: sketches and matrices as bytes, the others in half precision.

        Sums become means, which fit its range.
        """
        flat: dict[str, Array] = {name: getattr(self, name) for name in _PLAIN}
        for prefix, towers in (("picture", self.picture), ("text", self.text)):
            for i, tower in enumerate(towers):
                flat |= {f"{prefix}.{i}.{name}": getattr(tower, name) for name in Tower.__slots__}
        flat |= {f"rehearsal.{name}": getattr(self.rehearsal, name) for name in Rehearsal.__slots__}
        if self.words is not None:
            flat |= {f"words.{name}": getattr(self.words, name) for name in LearntWords.__slots__}
        weight = max(self.statistics.weight, 1.0)
        flat["statistics.gram"] = (self.statistics.gram / (weight * self._gram_scale))[
            np.triu_indices(len(self.statistics.gram))
        ]
        stored: dict[str, NDArray[Any]] = {_SEEN: self.seen} if len(self.seen) else {}
        for name, array in flat.items():
            if array.ndim == 2 and not name.startswith(_HALVES):
                stored[name], stored[name + _SCALE] = as_bytes(array)
            else:
                stored[name] = np.ascontiguousarray(array, np.float16)
        return stored | {"statistics.cross": np.ascontiguousarray(self.statistics.cross / weight, np.float16)}


def as_stored(matrix: Array) -> Array:
    """Return a matrix rounded as a file rounds it, so that what is trained on it sees the numbers that will be read."""
    return from_bytes(*as_bytes(matrix))


def _numbers(stored: Mapping[str, NDArray[Any]]) -> dict[str, Array]:
    """Return the arrays of a file but the sketches, as float32.

    Raises:
        KeyError: a matrix of bytes has no scale.
    """
    return {
        name: from_bytes(array, stored[name + _SCALE]) if array.dtype == np.int8 else array.astype(np.float32)
        for name, array in stored.items()
        if name != _SEEN and not name.endswith(_SCALE)
    }


def inputs_of(header: Mapping[str, Any]) -> BridgeInputs:
    """Return what the bridge with this header reads.

    Raises:
        KeyError: the header lacks a name.
    """
    backbones = tuple(header["backbones"])
    return BridgeInputs(backbones, tuple(header.get("classifiers", backbones)), header["text_encoder"])


_PLAIN: Final = ("mean", "spread", "basis", "residual", "text_centre", "ridge", "ridge_bias")


def _side_by_side(towers: tuple[Tower, ...], rows: Array) -> Array:
    """Return all towers' vectors concatenated and scaled to length 1, so that cosines are the mean of the towers' cosines."""
    return unit(np.hstack([tower(rows) for tower in towers]))


def _symmetric(upper: Array) -> Array:
    """Return the symmetric matrix of a packed upper triangle."""
    size = int(((8 * len(upper) + 1) ** 0.5 - 1) / 2)
    full = np.zeros((size, size), np.float32)
    full[np.triu_indices(size)] = upper
    return full + np.triu(full, 1).T
