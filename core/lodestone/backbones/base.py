"""Contract of a backbone: a frozen image model that turns pixels into named outputs.

A backbone runs once per picture, and its outputs are kept (float16, Parquet). Its `version` changes whenever the same pixels
would give other outputs: it is a hash of the weights, the conversion and the preprocessing. Construction is light; `warm_up`
loads the model (once a process); `prepare` turns one decoded picture into the model's input; `embed` runs a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]
Outputs = dict[str, NDArray[np.float16]]


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """Description of one named output, which has rows of `dim` float16 values."""

    name: str
    dim: int


@dataclass(frozen=True, slots=True, order=True)
class OutputKey:
    """Key that names one output of one backbone, e.g. ("efficientnet-lite0", "features")."""

    backbone: str
    output: str


class Backbone(ABC):
    """Frozen image model; the module's docstring describes the contract."""

    name: str
    outputs: tuple[OutputSpec, ...]
    input_size: int  # pixels on a side; decoding smaller than this loses detail
    text_encoder: str | None = None  # its vectors lie in the same space as the only output; None: the model takes no text

    @property
    @abstractmethod
    def version(self) -> str:
        """Return a short stable string (<= 16 characters, [0-9a-z]); no model needs to be loaded."""

    @abstractmethod
    def warm_up(self, *, threads: int = 0) -> None:
        """Load the model, and convert it first if the cache has no converted copy.

        Args:
            threads: Threads of one pass; 0 lets the runtime choose.

        Raises:
            ModelUnavailableError: The package with the weights is not installed.
        """

    def on_gpu(self) -> bool:
        """Return whether the model runs (or will run) on a GPU here, where a pass over hundreds of pictures pays."""
        return False

    @abstractmethod
    def prepare(self, image: Image.Image) -> Pixels:
        """Convert one RGB picture to (input_size, input_size, 3) uint8. Pure and thread-safe."""

    def upload(self, pixels: Pixels) -> Any:  # noqa: ANN401 - what the model's runtime holds pictures in
        """Start to bring a batch to where the model runs, and return what `embed` takes in its place. Thread-safe.

        With it, one batch is on its way while another one is in the model. A model on the CPU takes the pixels as they are.
        """
        return pixels

    @abstractmethod
    def embed(self, pixels: Any) -> Outputs:  # noqa: ANN401 - as `upload`
        """Embed a batch into (n, dim) float16 per output; row i depends on picture i alone.

        Args:
            pixels: (n, input_size, input_size, 3) uint8, or what `upload` returned for them.
        """

    def check(self, pixels: Pixels, *, warm: bool) -> Outputs | None:
        """Check the input of `embed`, and return empty outputs if there are no pictures, else None.

        Raises:
            ValueError: The pixels are not (n, input_size, input_size, 3) uint8.
            RuntimeError: `warm_up` was not called.
        """
        expected = (self.input_size, self.input_size, 3)
        if pixels.ndim != 4 or pixels.shape[1:] != expected or pixels.dtype != np.uint8:
            raise ValueError(f"{self.name} takes (n, {expected}) uint8, got {pixels.shape} {pixels.dtype}")
        if not warm:
            raise RuntimeError(f"{self.name}: call warm_up() before embed()")
        return {spec.name: np.empty((0, spec.dim), np.float16) for spec in self.outputs} if len(pixels) == 0 else None


class BackboneOutputs(Mapping[OutputKey, NDArray[np.float16]]):
    """Outputs of several backbones for the same n pictures, keyed by (backbone, output); every value has n rows."""

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
        """Return the same outputs for a subset or reordering of the pictures; `rows` is (m,) integer."""
        return BackboneOutputs({k: v[rows] for k, v in self._columns.items()})
