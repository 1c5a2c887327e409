"""What does a model need from its surroundings? The cache and the number of threads, handed to every factory."""

from __future__ import annotations

from dataclasses import dataclass

from lodestone.models.cache import ModelCache


@dataclass(frozen=True, slots=True)
class ModelContext:
    """Handed to the factories of backbones, text encoders and spaces, so that none of them asks a global.

    Attributes:
        cache: Where converted files are kept.
        threads: Threads for one pass of a model, where `warm_up` is not told otherwise; 0 for the runtime's choice.
    """

    cache: ModelCache
    threads: int = 0
