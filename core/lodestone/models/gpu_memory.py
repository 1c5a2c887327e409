"""Batches that fit the GPU's memory: where it runs out, a batch is halved and tried again, and later ones stay as small."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import ModelUnavailableError

_TYPES: Final = frozenset({"OutOfMemoryError"})  # torch.OutOfMemoryError, which older releases have as torch.cuda's
_MESSAGES: Final = (
    "cuda out of memory",  # torch
    "cuda error: out of memory",  # torch, from another call
    "cublas_status_alloc_failed",
    "failed to allocate memory for requested buffer",  # ONNX Runtime's arena
    "cuda failure 2",  # ONNX Runtime: cudaErrorMemoryAllocation
    "cudaerrormemoryallocation",
)
_log = logging.getLogger(__name__)


def out_of_gpu_memory(error: BaseException) -> bool:
    """Return whether an exception, or what caused it, says that a GPU's memory ran out."""
    following: BaseException | None = error
    while following is not None:
        message = str(following).lower()
        if type(following).__name__ in _TYPES or any(text in message for text in _MESSAGES):
            return True
        following = following.__cause__
    return False


class Embedder(Protocol):
    """Part of a backbone's face that a pass needs."""

    name: str

    def upload(self, pixels: NDArray[np.uint8]) -> Any:  # noqa: ANN401 - what the model's runtime holds pictures in
        """Bring a batch to where the model runs."""

    def embed(self, pixels: Any) -> Mapping[str, NDArray[Any]]:  # noqa: ANN401 - as `upload`
        """Return the outputs of a batch."""


class MemoryFit:
    """Passes of a size that GPU memory has room for.

    Attributes:
        most: Most pictures of a pass; 0 as long as memory never ran out.
    """

    def __init__(self) -> None:
        self.most = 0

    def upload(self, model: Embedder, pixels: NDArray[np.uint8]) -> Any:  # noqa: ANN401 - as `Embedder.upload`
        """Return the batch where the model runs, for `embed`; None where that has no room for it."""
        if self.most and len(pixels) > self.most:
            return None
        try:
            return model.upload(pixels)
        except Exception as error:
            if not out_of_gpu_memory(error):
                raise
            return None

    def embed(self, model: Embedder, pixels: NDArray[np.uint8], uploaded: Any = None) -> dict[str, NDArray[Any]]:  # noqa: ANN401
        """Return the model's outputs for all pictures, in as many passes as memory demands. One call at a time.

        Args:
            model: The model.
            pixels: (n, side, side, 3) uint8.
            uploaded: What `upload` returned for them.

        Raises:
            ModelUnavailableError: memory has no room for one picture.
        """
        passes: list[Mapping[str, NDArray[Any]]] = []
        start = 0
        while start < len(pixels) or not passes:
            batch = pixels[start : start + (self.most or len(pixels))]
            try:
                passes.append(model.embed(model.upload(batch) if uploaded is None else uploaded))
                start += len(pixels) if uploaded is not None else len(batch)
            except Exception as error:
                if not out_of_gpu_memory(error):
                    raise
                self._halve(model.name, len(batch), error)
            uploaded = None
        return (
            dict(passes[0]) if len(passes) == 1 else {key: np.concatenate([each[key] for each in passes]) for key in passes[0]}
        )

    def _halve(self, name: str, size: int, error: Exception) -> None:
        if size <= 1:
            raise no_room(name) from error
        self.most = size // 2
        free_cached_memory()
        _log.warning("the GPU's memory has no room for %d pictures at once in %s: trying %d", size, name, self.most)


def no_room(name: str) -> ModelUnavailableError:
    """Return the error for a model that GPU memory has no room for."""
    return ModelUnavailableError(
        f"the GPU's memory has no room for {name}",
        hint="give each worker more of it: fewer workers on a GPU (cluster.gpus_per_actor, index.workers), or a larger GPU",
        model=name,
    )


def free_cached_memory() -> None:
    """Have torch give back the memory that it keeps for later, if it is in use here."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
