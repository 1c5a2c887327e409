"""Base class of backbones that run in ONNX Runtime; the graph is converted once and kept in the model cache."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from lodestone.backbones.base import Backbone, Outputs, Pixels
from lodestone.models.context import ModelContext
from lodestone.models.hardware import gpus

if TYPE_CHECKING:
    import onnxruntime as ort


class OnnxBackbone(Backbone):
    """Backbone whose graph takes `pixels` (n, input_size, input_size, 3) uint8 and returns its outputs by name, float16.

    Args:
        context: Model cache and number of threads.
    """

    def __init__(self, context: ModelContext) -> None:
        self._context = context
        self._session: ort.InferenceSession | None = None

    @property
    @abstractmethod
    def graph_key(self) -> str:
        """Return a key that changes whenever the converted graph would change."""

    @abstractmethod
    def convert(self, target: Path) -> None:
        """Write the ONNX graph to `target`; takes seconds."""

    def warm_up(self, *, threads: int = 0) -> None:
        """Open the session; convert the model first if the cache has no intact graph."""
        if self._session is not None:
            return
        from lodestone.models.session import open_session

        path = self._context.cache.obtain(self.name, key=self.graph_key, suffix=".onnx", build=self.convert)
        self._session = open_session(path, threads=threads or self._context.threads)

    def on_gpu(self) -> bool:
        """Return whether there is a GPU, and an ONNX Runtime that uses it."""
        if not gpus():
            return False
        from lodestone.models.session import runs_on_gpu

        return runs_on_gpu()

    def embed(self, pixels: Pixels) -> Outputs:
        """Embed (n, input_size, input_size, 3) uint8 into (n, dim) float16 for each output name.

        Raises:
            ValueError: The pixels have another shape or type.
            RuntimeError: `warm_up` was not called.
        """
        empty = self.check(pixels, warm=self._session is not None)
        if empty is not None or self._session is None:
            return empty or {}
        names = [spec.name for spec in self.outputs]
        return dict(zip(names, self._session.run(names, {"pixels": pixels}), strict=True))
