"""Contract of a space: a projection from backbone outputs, and often texts, to one searchable vector each.

A projection is small, and learned or fixed. `project` returns L2-normalised float32 rows, so inner products are cosines. Where
a space takes text, `project_texts` maps the vectors of its text encoder (computed once per query, shared by all spaces that use
the encoder) into the same space. Vectors of two versions are never compared: the version is part of the collection's name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.base import BackboneOutputs, OutputKey

Vectors = NDArray[np.float32]


class Projection(ABC):
    """Projects backbone outputs, and often texts, into one space; the module's docstring states the contract."""

    name: str
    dim: int
    requires: tuple[OutputKey, ...]
    text_encoder: str | None  # name in the text encoder registry; None: the space takes no text

    @property
    @abstractmethod
    def version(self) -> str:
        """Return a short stable string (<= 16 characters, [0-9a-z]) that changes whenever the vectors would."""

    @property
    def collection(self) -> str:
        """Return the name of the vector collection that holds this space in this version."""
        return f"{self.name}-{self.version}"

    @abstractmethod
    def warm_up(self) -> None:
        """Load the projection's weights; this is light, because no image model is loaded."""

    @abstractmethod
    def project(self, outputs: BackboneOutputs) -> Vectors:
        """Return the vectors of n pictures: (n, dim) float32, L2-normalised.

        Args:
            outputs: Backbone outputs of the pictures; at least those in `requires`.
        """

    @abstractmethod
    def project_texts(self, encoded: Vectors) -> Vectors:
        """Return the vectors of n texts: (n, dim) float32, L2-normalised.

        Args:
            encoded: (n, d) float32 rows of `text_encoder`.

        Raises:
            InvalidRequestError: the space takes no text (`text_encoder` is None).
        """
