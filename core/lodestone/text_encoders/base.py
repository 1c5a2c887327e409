"""Contract of a text encoder: a frozen model that turns texts into L2-normalised vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class TextEncoder(ABC):
    """Encodes texts with a frozen model; construction is light, `warm_up` loads the model, and `encode` is thread-safe."""

    name: str
    dim: int
    languages: frozenset[str] = frozenset()
    """ISO 639-1 codes of the languages that the model was trained on; empty where they are unknown or too many to tell."""

    @property
    @abstractmethod
    def version(self) -> str:
        """Return a short stable string (<= 16 characters, [0-9a-z]); no model is loaded for it."""

    @abstractmethod
    def warm_up(self, *, threads: int = 0) -> None:
        """Load the model, converting it first where needed.

        Args:
            threads: Threads for one pass; 0 for the context's or the runtime's choice.

        Raises:
            ModelUnavailableError: the model's package is missing.
        """

    def words(self) -> frozenset[str]:
        """Return the whole words of the model's vocabulary, lower case; empty where it is not known. No model is loaded."""
        return frozenset()

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the texts' vectors: (n, dim) float32, L2-normalised.

        Long texts are cut at the model's window; an empty list gives (0, dim).
        """
