"""Context for the factories of models: the model cache, the number of threads and the learned artifacts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lodestone.data import DEFAULT_BRIDGE
from lodestone.models.cache import ModelCache


@dataclass(frozen=True, slots=True)
class ModelContext:
    """Carries what the factories of backbones, text encoders and spaces need, so that none of them reads a global.

    Attributes:
        cache: The cache of converted files.
        threads: Threads for one pass of a model, unless `warm_up` is given another number; 0 for the runtime's choice.
        artifacts: Learned artifacts of this home that are active, by kind, e.g. `bridge`. A missing kind means the shipped one.
        bridge: File of the shipped bridge, below `data/bridge/`; as in `Profile.bridge`.
        compiled: Whether image models of torch are compiled (`torch.compile`).
        fetch: Whether models that the machine does not have are fetched from their hub; if not, they are unavailable.
    """

    cache: ModelCache
    threads: int = 0
    artifacts: Mapping[str, Path] = field(default_factory=dict)
    bridge: str = DEFAULT_BRIDGE
    compiled: bool = False
    fetch: bool = True
