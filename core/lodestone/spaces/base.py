"""What is a space? A projection from backbone outputs to one searchable vector a picture, and often from text to the same.

A projection is small and learnt or fixed. `project` gives L2-normalised float32 rows, so inner products are cosines. Where
a space takes text, `project_texts` maps the vectors of its text encoder (computed once a query, shared by all spaces that use
the encoder) into the same space. Vectors of two versions are never compared: the version is part of the collection's name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import BackboneOutputs, OutputKey

Vectors = NDArray[np.float32]


class Projection(ABC):
    """See the module's docstring: it is the contract."""

    name: str
    dim: int
    requires: tuple[OutputKey, ...]
    text_encoder: str | None  # name in the text encoder registry; None: the space takes no text

    @property
    @abstractmethod
    def version(self) -> str:
        """Short stable string (<= 16 characters, [0-9a-z]): changes whenever vectors would."""

    @property
    def collection(self) -> str:
        """Name of the vector collection that holds this (space, version)."""
        return f"{self.name}-{self.version}"

    @abstractmethod
    def warm_up(self) -> None:
        """Load weights; light work only, no image model."""

    @abstractmethod
    def project(self, outputs: BackboneOutputs) -> Vectors:
        """Outputs of n pictures (at least `requires`) -> (n, dim) float32, L2-normalised."""

    @abstractmethod
    def project_texts(self, encoded: Vectors) -> Vectors:
        """(n, d) float32 rows of `text_encoder` -> (n, dim) float32, L2-normalised.

        Raises:
            InvalidRequestError: the space takes no text (`text_encoder` is None).
        """
