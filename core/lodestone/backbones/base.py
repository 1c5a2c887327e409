"""What is a backbone? A frozen image model: pixels -> named outputs.

A backbone runs once per picture, and its outputs are kept (float16, Parquet). Its `version` changes whenever the same pixels
would give other outputs: it is a hash of the weights, the conversion and the preprocessing. Construction is light; `warm_up`
loads the model (once a process); `prepare` turns one decoded picture into the model's input; `embed` runs a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]
Outputs = dict[str, NDArray[np.float16]]


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """One named output: rows of `dim` float16 values."""

    name: str
    dim: int


@dataclass(frozen=True, slots=True, order=True)
class OutputKey:
    """Names one output of one backbone, e.g. ("efficientnet-lite0", "features")."""

    backbone: str
    output: str


class Backbone(ABC):
    """See the module's docstring: it is the contract."""

    name: str
    outputs: tuple[OutputSpec, ...]
    input_size: int  # pixels on a side; decoding smaller than this loses detail
    text_encoder: str | None = None  # whose vectors lie in the same space as the only output; None: the model takes no text

    @property
    @abstractmethod
    def version(self) -> str:
        """Short stable string (<= 16 characters, [0-9a-z]); needs no loaded model."""

    @abstractmethod
    def warm_up(self, *, threads: int = 0) -> None:
        """Load the model, converting it first where needed. `threads` for one pass, 0 for the runtime's choice.

        Raises:
            ModelUnavailableError: the package with the weights is not installed.
        """

    @abstractmethod
    def prepare(self, image: Image.Image) -> Pixels:
        """One RGB picture -> (input_size, input_size, 3) uint8. Pure, thread-safe."""

    @abstractmethod
    def embed(self, pixels: Pixels) -> Outputs:
        """(n, input_size, input_size, 3) uint8 -> for each output name (n, dim) float16. Row i depends on picture i alone."""

    def check(self, pixels: Pixels, *, warm: bool) -> Outputs | None:
        """What every `embed` begins with: outputs of no rows for no pictures, else None.

        Raises:
            ValueError: the pixels are not (n, input_size, input_size, 3) uint8.
            RuntimeError: `warm_up` was not called.
        """
        expected = (self.input_size, self.input_size, 3)
        if pixels.ndim != 4 or pixels.shape[1:] != expected or pixels.dtype != np.uint8:
            raise ValueError(f"{self.name} takes (n, {expected}) uint8, got {pixels.shape} {pixels.dtype}")
        if not warm:
            raise RuntimeError(f"{self.name}: call warm_up() before embed()")
        return {spec.name: np.empty((0, spec.dim), np.float16) for spec in self.outputs} if len(pixels) == 0 else None


class BackboneOutputs(Mapping[OutputKey, NDArray[np.float16]]):
    """Outputs of several backbones over the same n pictures, keyed by (backbone, output); every value has n rows."""

    def __init__(self, columns: Mapping[OutputKey, NDArray[np.float16]]) -> None:
        sizes = {len(v) for v in columns.values()}
        if len(sizes) > 1:
            raise ValueError(f"outputs have different numbers of rows: {sorted(sizes)}")
        self._columns = dict(columns)
        self.rows = sizes.pop() if sizes else 0

    def __getitem__(self, key: OutputKey) -> NDArray[np.float16]:
        return self._columns[key]

    def __iter__(self):  # type: ignore[no-untyped-def]  # noqa: ANN204
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def take(self, rows: NDArray[np.intp]) -> BackboneOutputs:
        """The same outputs for a subset or reordering of the pictures; `rows` is (m,) integer."""
        return BackboneOutputs({k: v[rows] for k, v in self._columns.items()})
