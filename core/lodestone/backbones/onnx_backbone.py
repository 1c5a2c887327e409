"""How does a backbone run in ONNX Runtime? Its graph is made once and kept in the cache; a session runs it."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from lodestone.backbones.base import Backbone, Outputs, Pixels
from lodestone.models.context import ModelContext

if TYPE_CHECKING:
    import onnxruntime as ort


class OnnxBackbone(Backbone):
    """A backbone whose graph takes `pixels` (n, input_size, input_size, 3) uint8 and gives its outputs by name, float16.

    Args:
        context: Cache and threads.
    """

    def __init__(self, context: ModelContext) -> None:
        self._context = context
        self._session: ort.InferenceSession | None = None

    @property
    @abstractmethod
    def graph_key(self) -> str:
        """Changes whenever the graph would."""

    @abstractmethod
    def convert(self, target: Path) -> None:
        """Make the graph (seconds)."""

    def warm_up(self, *, threads: int = 0) -> None:
        """Open the session, making the graph first where the cache has no sound one."""
        if self._session is not None:
            return
        from lodestone.models.session import open_session

        path = self._context.cache.obtain(self.name, key=self.graph_key, suffix=".onnx", build=self.convert)
        self._session = open_session(path, threads=threads or self._context.threads)

    def embed(self, pixels: Pixels) -> Outputs:
        """(n, input_size, input_size, 3) uint8 -> for each output name (n, dim) float16.

        Raises:
            ValueError: the pixels have another shape or type.
            RuntimeError: `warm_up` was not called.
        """
        nothing = self.check(pixels, warm=self._session is not None)
        if nothing is not None or self._session is None:
            return nothing or {}
        names = [spec.name for spec in self.outputs]
        return dict(zip(names, self._session.run(names, {"pixels": pixels}), strict=True))
