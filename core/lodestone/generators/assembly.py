"""Which engines does this home have? Those of its settings and its profile, put together into a hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lodestone.catalog.records import EngineState
from lodestone.config.engines import EngineSettings
from lodestone.config.settings import Settings
from lodestone.generators.cache import GuideCache
from lodestone.generators.engine_call import Engine, HubObserver
from lodestone.generators.hub import Hub
from lodestone.generators.registry import GeneratorContext, make_generator
from lodestone.query.stages import RemoteStages


def make_hub(
    settings: Settings,
    profile_generators: Sequence[str],
    states: Callable[[], Mapping[str, EngineState]],
    context: GeneratorContext,
    cache_dir: Path,
    *,
    observer: HubObserver | None = None,
    remote_stages: RemoteStages | None = None,
) -> Hub:
    """A hub of every engine that the profile or the settings name; light: nothing is loaded or connected.

    Args:
        settings: Of the home. `generators.NAME` configures an engine; a name without a section is an engine of that kind.
        profile_generators: Names that the profile asks for.
        states: Reads name -> what was switched or moved in use.
        context: For the engines' factories.
        cache_dir: Where guides are kept.
        observer: Told what happens.
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
    kept = settings.guide_cache
    cache = GuideCache(cache_dir, limit_bytes=kept.limit_mb << 20, picture_px=kept.picture_px, semantic=kept.semantic)
    return Hub(engines, cache=cache if kept.limit_mb else None, observer=observer, states=states(), source=states)


def make_engine(name: str, settings: EngineSettings, context: GeneratorContext) -> Engine:
    """One engine; raises as `make_hub`."""
    return Engine(name, settings, make_generator(settings.kind, replace(context, name=name, engine=settings)))
