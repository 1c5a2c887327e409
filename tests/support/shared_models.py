"""Models that the tests of one process share: sessions, the shipped bridge, and what pictures were embedded to.

The same small pictures are indexed in a hundred homes, and embedding them takes half of the time of an index run.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from blake3 import blake3
from tests.support.models import MODELS

_SESSIONS = 8  # of these, the largest takes 90 MB
_INSTALLED = Path(sysconfig.get_path("purelib"))  # where the packages have the weights


class EmbeddingMemory:
    """Outputs of pictures that a session embedded before; a picture's outputs do not depend on its batch.

    Args:
        embed: `OnnxBackbone.embed`.
    """

    def __init__(self, embed: Any) -> None:
        self.embed = embed
        self._outputs: WeakKeyDictionary[Any, dict[bytes, dict[str, Any]]] = WeakKeyDictionary()

    def recall(self, backbone: Any, pixels: Any) -> Any:
        """Embed as `OnnxBackbone.embed` does, with the session's work done once for each picture."""
        import numpy as np

        if backbone._session is None or not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.ndim != 4:
            return self.embed(backbone, pixels)
        known = self._outputs.setdefault(backbone._session, {})
        keys = [blake3(np.ascontiguousarray(row).data).digest() for row in pixels]
        new = [number for number, key in enumerate(keys) if key not in known]
        if new or not keys:
            outputs = self.embed(backbone, pixels[new])
            if not keys:
                return outputs
            known |= {keys[number]: {name: rows[at].copy() for name, rows in outputs.items()} for at, number in enumerate(new)}
        return {name: np.stack([known[key][name] for key in keys]) for name in known[keys[0]]}


@pytest.fixture(scope="session", autouse=True)
def shared_models() -> Iterator[EmbeddingMemory]:
    """Sessions are safe to run from several threads, and weights are immutable: who shares them cannot tell."""
    from lodestone.backbones.onnx_backbone import OnnxBackbone
    from lodestone.models import cache as model_cache
    from lodestone.models import session
    from lodestone.spaces.bridge_weights import BridgeWeights  # imports numpy, as the next does: not before its threads are set

    load = session.open_session
    memory = EmbeddingMemory(OnnxBackbone.embed)

    @lru_cache(_SESSIONS)
    def loaded(path: Path, _changed: tuple[int, int, int], threads: int) -> Any:
        return load(path, threads=threads)

    def open_session(path: Path, *, threads: int = 0) -> Any:
        if not path.exists():
            return load(path, threads=threads)
        found = path.stat()
        return loaded(path, (found.st_ino, found.st_mtime_ns, found.st_size), threads)

    read = model_cache.hash_file

    @cache
    def read_once(path: Path, _changed: tuple[int, int, int]) -> str:
        return read(path)

    def hash_file(path: Path) -> str:
        if not path.is_relative_to(MODELS) and not path.is_relative_to(_INSTALLED):
            return read(path)
        found = path.stat()
        return read_once(path, (found.st_ino, found.st_mtime_ns, found.st_size))

    def embed(backbone: Any, pixels: Any) -> Any:
        return memory.recall(backbone, pixels)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "open_session", open_session)
        patch.setattr(model_cache, "hash_file", hash_file)
        patch.setattr(BridgeWeights, "shipped", cache(BridgeWeights.shipped))
        patch.setattr(OnnxBackbone, "embed", embed)
        yield memory


@pytest.fixture(scope="module")
def real_embedding(shared_models: EmbeddingMemory) -> Iterator[None]:
    """Let every call run its model, for tests of the backbones themselves."""
    from lodestone.backbones.onnx_backbone import OnnxBackbone

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OnnxBackbone, "embed", shared_models.embed)
        yield
