"""What is a text encoder? A frozen model: texts -> L2-normalised vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class TextEncoder(ABC):
    """Frozen text model. Construction is light; `warm_up` loads; `encode` is thread-safe."""

    name: str
    dim: int

    @property
    @abstractmethod
    def version(self) -> str:
        """Short stable string (<= 16 characters, [0-9a-z]); needs no loaded model."""

    @abstractmethod
    def warm_up(self, *, threads: int = 0) -> None:
        """Load the model, converting it first where needed. Raises `ModelUnavailableError` when its package is missing."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Texts -> (n, dim) float32, L2-normalised. Long texts are cut at the model's window; an empty list gives (0, dim)."""
