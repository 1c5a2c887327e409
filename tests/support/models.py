"""Real models for tests: converted once a machine, in a cache that test runs share."""

import os
from pathlib import Path

import platformdirs

from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext

MODELS = Path(os.environ.get("LODESTONE_TEST_MODELS") or platformdirs.user_cache_path("lodestone") / "test-models")


def model_context(*, threads: int = 1) -> ModelContext:
    """A context on the shared test cache (`LODESTONE_TEST_MODELS`, else the user's cache directory)."""
    return ModelContext(ModelCache(MODELS), threads=threads)
