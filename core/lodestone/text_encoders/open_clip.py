"""Text encoder for a CLIP model's space: the text tower of any model that open_clip loads.

It is registered under the same names as the image towers (backbones/open_clip.py): `open_clip:MODEL/PRETRAINED`,
`open_clip:hf-hub:owner/name`, `open_clip:/directory`. The vectors are comparable with that model's pictures only.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.backbones.open_clip import LAYOUT, PREFIX, clip_checkpoint, embedding_dim, load_model
from lodestone.errors import ModelUnavailableError
from lodestone.models.cache import fingerprint
from lodestone.models.checkpoints import CANNOT_LOAD, Checkpoint
from lodestone.models.context import ModelContext
from lodestone.models.packages import import_library
from lodestone.text_encoders.base import TextEncoder

if TYPE_CHECKING:
    import torch

ADAPTER_VERSION: Final = "1"  # raise it when the same weights and texts would give other vectors
_BATCH: Final = 64  # texts in one pass


class OpenClipText(TextEncoder):
    """Encodes texts as (n, dim) vectors in the space of a CLIP model's pictures, under a name `open_clip:…`.

    A text is cut at the model's window (often 77 tokens).

    Args:
        name: `open_clip:SOURCE`, as it is registered.
        context: Cache and threads.
    """

    def __init__(self, name: str, context: ModelContext) -> None:
        self.name = name
        self._context = context
        self._model: Any = None
        self._tokenizer: Any = None
        self._device: torch.device | None = None
        self._lock = threading.Lock()

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """Return the model's files, which are fetched from the hub when this machine does not have them."""
        return clip_checkpoint(self.name.removeprefix(PREFIX), self._context)

    @cached_property
    def dim(self) -> int:  # type: ignore[override]  # known only once the config is read
        """Return the length of a vector."""
        return embedding_dim(self.checkpoint, self.name)

    @cached_property
    def version(self) -> str:
        """Return a hash of the weights, the config, the tokenizer and the adapter; no model is loaded for it."""
        return fingerprint(PREFIX, "text", ADAPTER_VERSION, self.checkpoint.identity)[:12]

    def warm_up(self, *, threads: int = 0) -> None:
        """Load the text tower, onto the GPU where there is one; this imports open_clip, which takes seconds.

        Raises:
            ModelUnavailableError: open_clip is not installed, or the files hold no model that it can load.
        """
        with self._lock:
            if self._model is not None:
                return
            open_clip = import_library("open_clip", install=LAYOUT.install, needed_by=self.name)
            folder = self.checkpoint.folder
            from lodestone.models.torch_device import choose_device, limit_threads, place_module

            limit_threads(threads or self._context.threads)
            try:
                model = load_model(self.checkpoint)
                self._tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")
            except CANNOT_LOAD as error:
                raise ModelUnavailableError(
                    f"open_clip cannot load {self.name}: {(str(error).strip() or type(error).__name__).splitlines()[0]}",
                    hint="its files are damaged, or need another release of the library; see docs/models.md",
                    model=self.name,
                ) from error
            model.visual = None  # the image tower has an adapter of its own
            self._device = choose_device()
            place_module(model, self._device)
            self._model = model

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the texts' vectors: (n, dim) float32, L2-normalised.

        Raises:
            RuntimeError: `warm_up` was not called.
        """
        if self._model is None or self._device is None:
            raise RuntimeError(f"{self.name}: call warm_up() before encode()")
        from lodestone.models.torch_device import inference

        vectors = np.empty((len(texts), self.dim), np.float32)
        for start in range(0, len(texts), _BATCH):
            # lone surrogates of a file name or a command line: the tokenizer refuses them
            batch = [text.encode("utf8", "replace").decode("utf8") for text in texts[start : start + _BATCH]]
            with inference(self._device):
                rows = self._model.encode_text(self._tokenizer(batch).to(self._device)).float().cpu().numpy()
            vectors[start : start + _BATCH] = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        return vectors
