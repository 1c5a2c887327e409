"""Weights of the prior: a text vector gives a Gaussian over one space's vectors of pictures that the text describes.

training/prior.py fits them. Draws are scaled to length 1 like every vector of the space. A prior belongs to one version of a
space (its collection), because vectors of two versions are never compared. Arrays are float16 in the file and float32 in
memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.models.weights_file import WeightsFile, digest_of
from lodestone.spaces.bridge_arrays import Array, unit

FILE: Final = WeightsFile("prior", format=1)


@dataclass(frozen=True, slots=True)
class SpacePrior:
    """Holds the prior of one version of a space; immutable.

    Attributes:
        centre: (d,) mean text vector.
        slope: (d, dim) ridge map of centred text vectors.
        bias: (dim,) mean picture vector.
        spread: (rank, dim) directions of the residual, each as long as its standard deviation times the temperature.
    """

    centre: Array
    slope: Array
    bias: Array
    spread: Array

    def means(self, texts: Array) -> Array:
        """Return the means of (n, d) text vectors: (n, dim) float32, not normalised."""
        means: Array = ((texts - self.centre) @ self.slope + self.bias).astype(np.float32, copy=False)
        return means

    def draw(self, texts: Array, rng: np.random.Generator) -> Array:
        """Draw one vector for each text: (n, d) -> (n, dim) float32, L2-normalised."""
        noise = rng.standard_normal((len(texts), len(self.spread)), np.float32)
        return unit(self.means(texts) + noise @ self.spread)


@dataclass(frozen=True, slots=True)
class PriorWeights:
    """Holds the priors of several spaces.

    Attributes:
        spaces: Collection (space and version) -> its prior.
        text_encoder: Name of the text encoder whose vectors they read.
        provenance: JSON-serialisable: data, licence, settings.
    """

    spaces: Mapping[str, SpacePrior]
    text_encoder: str = "minilm"
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """Return 12 hex characters over all arrays as they are stored.

        Weights before and after `save` therefore have one version.
        """
        return digest_of([FILE.format, self.text_encoder], self._arrays())

    def save(self, directory: Path) -> Path:
        """Write `prior-<version>.safetensors` into `directory` (made if needed), by temporary name and rename."""
        return FILE.save(directory, self._arrays(), self._header(), version=self.version)

    def save_as(self, path: Path) -> Path:
        """Write the priors to exactly `path`, by temporary name and rename."""
        return FILE.save_as(path, self._arrays(), self._header())

    @classmethod
    def shipped(cls) -> PriorWeights:
        """Return the priors that ship inside the package, in `data/prior/` beside their model card."""
        return cls._from_arrays(*FILE.shipped())

    @classmethod
    def load(cls, path: Path) -> PriorWeights:
        """Read a file that `save` wrote.

        Raises:
            ConfigurationError: the file is missing, damaged, or of another format.
        """
        return cls._from_arrays(*FILE.load(path))

    @classmethod
    def _from_arrays(cls, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> PriorWeights:
        try:
            parts: dict[str, dict[str, Array]] = {}
            for name, array in arrays.items():
                collection, part = name.rsplit(".", 1)
                parts.setdefault(collection, {})[part] = array.astype(np.float32)
            spaces = {collection: SpacePrior(**fields) for collection, fields in parts.items()}
            return cls(spaces, text_encoder=header["text_encoder"], provenance=header["provenance"])
        except (KeyError, TypeError, ValueError) as error:
            raise FILE.other_arrays(error) from error

    def _header(self) -> dict[str, Any]:
        return {"text_encoder": self.text_encoder, "provenance": dict(self.provenance)}

    def _arrays(self) -> dict[str, NDArray[np.float16]]:
        return {
            f"{collection}.{part}": np.ascontiguousarray(getattr(prior, part), np.float16)
            for collection, prior in self.spaces.items()
            for part in SpacePrior.__slots__
        }
