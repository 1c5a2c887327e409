"""Table of generators by name. Other packages add theirs by the entry point group `lodestone.generators`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lodestone.catalog.reading import CatalogReader
from lodestone.config.engines import EngineSettings
from lodestone.generators.base import Generator, TagSource
from lodestone.generators.engines.exemplar import Exemplar
from lodestone.models.context import ModelContext
from lodestone.models.lookup import make
from lodestone.store.base import VectorStore

ENTRY_POINTS: Final = "lodestone.generators"


@dataclass(frozen=True, slots=True)
class GeneratorContext:
    """Everything that a factory may use to make a generator.

    Attributes:
        store: Vector store of the collection.
        catalog: Catalog of the collection.
        models: Cache and threads for engines that load models.
        text_encoder: Name of the encoder of queries and captions.
        name: Name under which the engine is configured.
        engine: The engine's section of the settings; None for defaults.
        tags: Finds pictures by tags; None for engines that do without.
    """

    store: VectorStore
    catalog: CatalogReader
    models: ModelContext | None = None
    text_encoder: str = "minilm"
    name: str = ""
    engine: EngineSettings | None = None
    tags: TagSource | None = None


def _exemplar(context: GeneratorContext) -> Generator:
    return Exemplar(context.store, context.catalog, text_encoder=context.text_encoder, tags=context.tags)


def _prior(context: GeneratorContext) -> Generator:
    from lodestone.generators.engines.prior import KIND, Prior

    learnt = None if context.models is None else context.models.artifacts.get(KIND)
    return Prior(learnt, name=context.name or KIND)


def _diffusers(context: GeneratorContext) -> Generator:
    from lodestone.generators.engines.diffusers import Diffusers

    return Diffusers(_settings(context, "diffusers"), context.name or "diffusers")


def _openai(context: GeneratorContext) -> Generator:
    from lodestone.generators.engines.openai import OpenAIImages

    return OpenAIImages(context.name or "openai", _settings(context, "openai"))


def _imagen(context: GeneratorContext) -> Generator:
    from lodestone.generators.engines.imagen import Imagen

    return Imagen(context.name or "imagen", _settings(context, "imagen"))


def _replicate(context: GeneratorContext) -> Generator:
    from lodestone.generators.engines.replicate import Replicate

    return Replicate(context.name or "replicate", _settings(context, "replicate"))


def _http(context: GeneratorContext) -> Generator:
    from lodestone.generators.engines.http import CustomHttp

    return CustomHttp(context.name or "http", _settings(context, "http"))


def _settings(context: GeneratorContext, kind: str) -> EngineSettings:
    return context.engine or EngineSettings(kind=kind)


GENERATORS: Final[Mapping[str, Callable[[GeneratorContext], Generator]]] = {
    "exemplar": _exemplar,
    "prior": _prior,
    "diffusers": _diffusers,
    "openai": _openai,
    "imagen": _imagen,
    "replicate": _replicate,
    "http": _http,
}


def make_generator(name: str, context: GeneratorContext) -> Generator:
    """Make a generator by name. Nothing is loaded before `warm_up`.

    Raises:
        UnknownNameError: there is no such generator; the hint lists them.
    """
    return make("generator", name, context, table=GENERATORS, group=ENTRY_POINTS)
