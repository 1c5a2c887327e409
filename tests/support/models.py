"""Real models for tests: converted once a machine, in a cache that test runs share."""

import os
from pathlib import Path

import platformdirs

from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext


def model_context(*, threads: int = 1) -> ModelContext:
    """A context on the shared test cache (`LODESTONE_TEST_MODELS`, else the user's cache directory)."""
    default = platformdirs.user_cache_path("lodestone") / "test-models"
    return ModelContext(ModelCache(Path(os.environ.get("LODESTONE_TEST_MODELS") or default)), threads=threads)
