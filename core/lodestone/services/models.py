"""Models used by themselves: listed, and asked for vectors and pictures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from numpy.typing import NDArray

from lodestone.access.caller import Caller
from lodestone.clock import within
from lodestone.errors import DeadlineExceededError, InvalidRequestError, ModelUnavailableError, UnknownNameError
from lodestone.generators.base import GuideRequest
from lodestone.query_notes import QueryNotes
from lodestone_schemas.openai import DrawingRequest, ModelInfo, ModelList

if TYPE_CHECKING:
    from lodestone.generators.hub import Hub
    from lodestone.home.runtime import Runtime
    from lodestone.query.contracts import Encoder
    from lodestone.services.sessions.session import HomeSession

Vectors = NDArray[np.float32]

_TEXTS_AT_ONCE: Final = 32  # so that queries get their turns between two passes
_PICTURES_AT_ONCE: Final = 4
_EMBEDDING_S: Final = 60.0  # for all inputs of one request
_VECTORS_ONLY: Final = frozenset({"exemplar", "prior"})  # kinds of generators that draw nothing
_HUB_KEEPS: Final = 0.2  # of the time left, for searching with what was drawn: not needed here


@dataclass(frozen=True, slots=True)
class Embedded:
    """(n, dim) float32 `vectors`, L2-normalised, and the id of the `model` that made them."""

    model: str
    vectors: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class GeneratedImages:
    """`pictures`, each (h, w, 3) uint8 RGB, by an `engine`; what they `cost`, and what went wrong meanwhile."""

    engine: str
    pictures: Sequence[NDArray[np.uint8]]
    cost: float = 0.0
    warnings: Sequence[str] = ()


class ModelUseCases:
    """Lists and asks the models of one home. They are everybody's: nothing of the home's pictures takes part."""

    def __init__(self, session: HomeSession) -> None:
        self._session = session

    def all(self, caller: Caller) -> ModelList:  # noqa: ARG002 - models are everybody's
        """Return all models: spaces, text encoders, generators and backbones."""
        return ModelList(data=list(_listed(self._session.runtime, int(self._session.started_at.timestamp()))))

    def get(self, model_id: str, caller: Caller) -> ModelInfo:
        """Return one model.

        Raises:
            UnknownNameError: no such model.
        """
        known = {model.id: model for model in self.all(caller).data}
        if model_id not in known:
            raise UnknownNameError.among("model", model_id, list(known))
        return known[model_id]

    async def embed(self, model: str, inputs: Sequence[str | bytes], caller: Caller) -> Embedded:
        """Return vectors of texts and of encoded pictures, by a space or a text encoder.

        Raises:
            UnknownNameError: no such model.
            InvalidRequestError: the model does not take such an input.
            ImageError: a picture cannot be decoded within the bounds.
            DeadlineExceededError: the inputs take longer than a minute.
        """
        runtime = self._session.runtime
        listed = await asyncio.to_thread(self.all, caller)
        known = {entry.id: entry for entry in listed.data if "embedding" in entry.gives}
        if model not in known:
            raise UnknownNameError.among("embedding model", model, list(known))
        chosen = known[model]
        kinds: set[Literal["text", "picture"]] = {"text" if isinstance(one, str) else "picture" for one in inputs}
        if refused := kinds - set(chosen.takes):
            raise InvalidRequestError(
                f"the model {model!r} takes no {refused.pop()}", hint="see `takes` in /v1/models", model=model
            )
        engine = await self._session.engine()
        rows: list[Vectors | None] = [None] * len(inputs)
        deadline = time.monotonic() + _EMBEDDING_S
        try:
            for places in _parts(inputs, str, _TEXTS_AT_ONCE):
                texts = [str(inputs[place]) for place in places]
                _put(rows, places, await within(_texts(engine.encoder, chosen, texts, deadline=deadline), deadline))
            for places in _parts(inputs, bytes, _PICTURES_AT_ONCE):
                pictures = [await asyncio.to_thread(_pixels, runtime, inputs[place]) for place in places]
                embedded = await within(engine.encoder.embed_pictures(pictures, deadline=deadline), deadline)
                _put(rows, places, _of(embedded, chosen))
        except TimeoutError as error:
            raise DeadlineExceededError(
                f"{len(inputs)} inputs were not embedded within {_EMBEDDING_S:.0f} s", hint="send fewer at once"
            ) from error
        return Embedded(model, np.stack([row for row in rows if row is not None]))

    async def draw(self, request: DrawingRequest, caller: Caller) -> GeneratedImages:  # noqa: ARG002 - as above
        """Return pictures of a generator, drawn through the hub: its turn, its breaker, its budget.

        Raises:
            UnknownNameError: no such generator.
            InvalidRequestError: it does not draw pictures, or cannot draw these.
            ModelUnavailableError: it gave nothing.
            DeadlineExceededError: there was no time.
        """
        runtime = self._session.runtime
        hub = runtime.hub
        await asyncio.to_thread(hub.refresh)
        name = _engine(hub, request.model)
        settings = hub.engines[name].settings
        if request.size not in {None, "auto", f"{settings.size}x{settings.size}"}:
            raise InvalidRequestError(
                f"the generator {name!r} does not draw {request.size}",
                hint=f"it draws {settings.size}x{settings.size}: leave `size` out, or change generators.{name}.size",
            )
        budget = runtime.settings.query.budget if request.budget is None else request.budget
        if budget is not None and settings.cost > budget:
            raise InvalidRequestError(
                f"a picture of {name!r} costs {settings.cost:g}, more than the budget of {budget:g}",
                hint="allow more: `budget`, or the setting query.budget",
            )
        seconds = settings.timeout_s if request.deadline_ms is None else request.deadline_ms / 1000
        deadline, log = time.monotonic() + seconds / (1 - _HUB_KEEPS), QueryNotes()
        wanted = GuideRequest(request.prompt, request.prompt, request.n, seed=request.seed, size=settings.size)
        pictures: list[NDArray[np.uint8]] = []
        async with aclosing(
            hub.draw(wanted, engines=[name], deadline=deadline, budget=budget, log=log, fresh=True)
        ) as arriving:
            async for guides in arriving:
                pictures.extend(guide.pixels for guide in guides if guide.pixels is not None)
                if len(pictures) < len(guides):
                    raise _draws_nothing(hub, name)
        if not pictures:
            raise _nothing_came(name, log, late=time.monotonic() > deadline - _HUB_KEEPS * seconds)
        return GeneratedImages(name, pictures[: request.n], cost=log.cost, warnings=[*log.warnings, *log.dropped])


def _listed(runtime: Runtime, created: int) -> Iterator[ModelInfo]:
    """Spaces first: where kinds share a name, the plain id is the space's, and the others say their kind."""
    taken: set[str] = set()

    def known_as(kind: str, name: str) -> str:
        chosen = f"{kind}/{name}" if name in taken else name
        taken.add(chosen)
        return chosen

    projections = runtime.serving_projections()
    for name, projection in projections.items():
        yield ModelInfo(
            id=known_as("space", name),
            created=created,
            name=name,
            kind="space",
            version=projection.version,
            dim=projection.dim,
            takes=["text", "picture"] if projection.text_encoder is not None else ["picture"],
            gives=["embedding"],
            collection=projection.collection,
        )
    for name, encoder in runtime.text_encoders(projections).items():
        yield ModelInfo(
            id=known_as("text_encoder", name),
            created=created,
            name=name,
            kind="text_encoder",
            version=encoder.version,
            dim=encoder.dim,
            takes=["text"],
            gives=["embedding"],
        )
    for engine in runtime.hub.status().engines:
        draws = engine.kind not in _VECTORS_ONLY
        yield ModelInfo(
            id=known_as("generator", engine.name),
            created=created,
            name=engine.name,
            kind="generator",
            version=engine.version,
            takes=["text"],
            gives=["picture"] if draws else [],
            enabled=engine.enabled,
        )
    for backbone in runtime.backbones():
        yield ModelInfo(
            id=known_as("backbone", backbone.name),
            created=created,
            name=backbone.name,
            kind="backbone",
            version=backbone.version,
            takes=["picture"],
        )


async def _texts(encoder: Encoder, model: ModelInfo, texts: Sequence[str], *, deadline: float) -> Vectors:
    encoded = await encoder.encode_texts(texts, deadline=deadline)
    return encoded.encoded[model.name] if model.kind == "text_encoder" else _of(encoded.projected, model)


def _of(vectors: Mapping[str, Vectors], model: ModelInfo) -> Vectors:
    found = vectors.get(model.collection or "")
    if found is None:
        raise ModelUnavailableError(
            f"the space {model.name!r} is being switched to another version", hint="try again in a moment", model=model.id
        )
    return found


def _parts(inputs: Sequence[str | bytes], kind: type, size: int) -> Iterator[list[int]]:
    places = [place for place, one in enumerate(inputs) if isinstance(one, kind)]
    for start in range(0, len(places), size):
        yield places[start : start + size]


def _put(rows: list[Vectors | None], places: Sequence[int], vectors: Vectors) -> None:
    for place, row in zip(places, vectors, strict=True):
        rows[place] = row


def _pixels(runtime: Runtime, picture: str | bytes) -> NDArray[np.uint8]:
    assert isinstance(picture, bytes)  # noqa: S101 - chosen by `_parts`
    return np.asarray(runtime.decode(picture).convert("RGB"))


def _engine(hub: Hub, wanted: str | None) -> str:
    drawing = [name for name in hub.names if hub.engines[name].settings.kind not in _VECTORS_ONLY]
    if wanted is None:
        chosen = next((name for name in drawing if hub.enabled(name)), None)
        if chosen is None:
            raise InvalidRequestError(
                "no generator of this service draws pictures", hint="configure one: docs/generators.md", known=drawing
            )
        return chosen
    name = wanted.removeprefix("generator/") if wanted not in hub.names else wanted
    if name not in hub.names:
        raise UnknownNameError.among("generator", wanted, list(hub.names))
    if name not in drawing:
        raise _draws_nothing(hub, name)
    if not hub.enabled(name):
        raise InvalidRequestError(f"the generator {name!r} is switched off", hint=f"lodestone generator enable {name}")
    return name


def _draws_nothing(hub: Hub, name: str) -> InvalidRequestError:
    kind = hub.engines[name].settings.kind
    return InvalidRequestError(
        f"the generator {name!r} ({kind}) gives vectors, no pictures", hint="see `gives` in /v1/models", model=name
    )


def _nothing_came(name: str, log: QueryNotes, *, late: bool) -> DeadlineExceededError | ModelUnavailableError:
    said = [*log.warnings, *log.dropped]
    if late:
        return DeadlineExceededError(f"{name!r} drew nothing in time", hint="allow more time: deadline_ms", said=said)
    why = said[0] if said else "it had no picture for these words"
    return ModelUnavailableError(
        f"the generator {name!r} drew nothing: {why}", hint=f"look what it says: lodestone generator test {name}", said=said
    )
