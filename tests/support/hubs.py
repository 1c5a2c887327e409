"""A hub of given generators, as the settings would make it: everything at its default, no cache."""

from __future__ import annotations

from collections.abc import Mapping

from lodestone.config.engines import EngineSettings
from lodestone.generators.asking import Engine
from lodestone.generators.base import Generator
from lodestone.generators.hub import Hub


def hub_of(generators: Mapping[str, Generator], **settings: object) -> Hub:
    """Name -> generator; `settings` hold for each engine."""
    return Hub(
        {
            name: Engine(name, EngineSettings(**({"kind": name} | settings)), generator)  # type: ignore[arg-type]
            for name, generator in generators.items()
        }
    )
