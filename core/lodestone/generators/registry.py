"""Which generators are there? One table of names; other packages add theirs by the entry point group `lodestone.generators`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lodestone.config.engines import EngineSettings
from lodestone.generators.base import Generator
from lodestone.generators.exemplar import Exemplar
from lodestone.models.context import ModelContext
from lodestone.models.lookup import make
from lodestone.query.stages import CatalogReader
from lodestone.store.base import VectorStore

ENTRY_POINTS: Final = "lodestone.generators"


@dataclass(frozen=True, slots=True)
class GeneratorContext:
    """Handed to every factory.

    Attributes:
        store: The collection's vectors.
        catalog: The collection's facts.
        models: Cache and threads for engines that load models.
        text_encoder: Name of the encoder of queries and captions.
        name: Under which the engine is configured.
        engine: Its section of the settings; None for defaults.
    """

    store: VectorStore
    catalog: CatalogReader
    models: ModelContext | None = None
    text_encoder: str = "minilm"
    name: str = ""
    engine: EngineSettings | None = None


def _exemplar(context: GeneratorContext) -> Generator:
    return Exemplar(context.store, context.catalog, text_encoder=context.text_encoder)


GENERATORS: Final[Mapping[str, Callable[[GeneratorContext], Generator]]] = {
    "exemplar": _exemplar,
}


def make_generator(name: str, context: GeneratorContext) -> Generator:
    """A generator by name, light: nothing is loaded before `warm_up`.

    Raises:
        UnknownNameError: no such generator; the hint lists them.
    """
    return make("generator", name, context, table=GENERATORS, group=ENTRY_POINTS)
