"""Assembly of a home's hub: it makes the engines that settings and profile name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from lodestone.catalog.records import EngineState
from lodestone.config.engines import EngineSettings
from lodestone.config.settings import Settings
from lodestone.generators.base import Generator
from lodestone.generators.cache import GuideCache
from lodestone.generators.engine_call import Engine, HubObserver
from lodestone.generators.hub import Hub
from lodestone.generators.registry import GeneratorContext, make_generator


class RemoteGenerators(Protocol):
    """Provides generators that run in other processes."""

    def generator(self, name: str, local: Generator) -> Generator:
        """Return what draws for the engine of this name: a remote one, or `local`, which is light and not warmed up."""


def make_hub(
    settings: Settings,
    profile_generators: Sequence[str],
    states: Callable[[], Mapping[str, EngineState]],
    context: GeneratorContext,
    cache_dir: Path,
    *,
    observer: HubObserver | None = None,
    remote_stages: RemoteGenerators | None = None,
) -> Hub:
    """Make a hub of every engine that the profile or the settings name. Nothing is loaded or connected.

    Args:
        settings: The home's settings. `generators.NAME` configures an engine; a name without a section is an engine of that
            kind.
        profile_generators: Names that the profile asks for.
        states: Reads name -> what was switched or moved in use.
        context: Passed to the engines' factories.
        cache_dir: Folder of the guide cache.
        observer: Receives the events of the engines.
        remote_stages: Draws for engines that run in other processes.

    Raises:
        UnknownNameError: no such kind of engine.
        ConfigurationError: an engine's settings cannot be used.
    """
    names = dict.fromkeys([*profile_generators, *(settings.query.generators or ()), *settings.generators])
    engines = {name: make_engine(name, settings.generators.get(name) or EngineSettings(kind=name), context) for name in names}
    if remote_stages is not None:
        engines = {
            name: replace(engine, generator=remote_stages.generator(name, engine.generator)) for name, engine in engines.items()
        }
    cache_settings = settings.guide_cache
    cache = GuideCache(
        cache_dir,
        limit_bytes=cache_settings.limit_mb << 20,
        picture_px=cache_settings.picture_px,
        semantic=cache_settings.semantic,
    )
    return Hub(engines, cache=cache if cache_settings.limit_mb else None, observer=observer, states=states(), source=states)


def make_engine(name: str, settings: EngineSettings, context: GeneratorContext) -> Engine:
    """Make one engine from its settings.

    Raises:
        UnknownNameError: no such kind of engine.
        ConfigurationError: the engine's settings cannot be used.
    """
    return Engine(name, settings, make_generator(settings.kind, replace(context, name=name, engine=settings)))
