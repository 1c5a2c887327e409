"""What does a model need from its surroundings? The cache and the number of threads, handed to every factory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lodestone.models.cache import ModelCache


@dataclass(frozen=True, slots=True)
class ModelContext:
    """Handed to the factories of backbones, text encoders and spaces, so that none of them asks a global.

    Attributes:
        cache: Where converted files are kept.
        threads: Threads for one pass of a model, where `warm_up` is not told otherwise; 0 for the runtime's choice.
        artifacts: What was learnt in this home and is in force, by kind, e.g. `bridge`; a missing kind stands for what ships.
    """

    cache: ModelCache
    threads: int = 0
    artifacts: Mapping[str, Path] = field(default_factory=dict)
