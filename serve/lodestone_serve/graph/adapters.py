"""How does the engine use stages that are deployments? Adapters that meet its contracts and ask a handle."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lodestone.errors import DeadlineExceededError, OverloadedError
from lodestone.generators.base import Generator, Guide, GuideRequest
from lodestone.query.stages import EncodedTexts, Pixels, Vectors
from lodestone.spaces.base import Projection
from lodestone_serve.graph.calls import StageCall


@dataclass(frozen=True, slots=True)
class Description:
    """What a generator is, as only those who load it can tell.

    Attributes:
        version: Of its model and adapter.
        guides_a_call: Most guides of one call; None for any number.
        cacheable: See `Generator.cacheable`.
    """

    version: str
    guides_a_call: int | None
    cacheable: bool


class RemoteEncoder:
    """Meets `query.stages.Encoder` by asking the deployment `Encoders`.

    Every call names the collections that the vectors will be compared with, so that vectors of two versions never meet,
    whichever replica answers.

    Args:
        stage: The deployment.
        projections: Space -> the version to search; they stay here, light, for what the engine asks of them directly.
    """

    def __init__(self, stage: StageCall, projections: Mapping[str, Projection]) -> None:
        self._stage = stage
        self._projections = dict(projections)
        self._collections = {space: projection.collection for space, projection in projections.items()}

    @property
    def collections(self) -> Mapping[str, str]:
        """See `Encoder.collections`."""
        return self._collections

    async def warm_up(self) -> None:
        """See `Encoder.warm_up`: the weights of small projections here, the models there."""
        await asyncio.gather(asyncio.to_thread(self._warm_here), self._stage.call("load", self._collections))

    async def encode_texts(self, texts: Sequence[str], *, deadline: float | None = None) -> EncodedTexts:
        """See `Encoder.encode_texts`."""
        found: EncodedTexts = await self._stage.call("encode_texts", list(texts), self._collections, deadline=deadline)
        return found

    async def embed_pictures(self, pictures: Sequence[Pixels], *, deadline: float | None = None) -> Mapping[str, Vectors]:
        """See `Encoder.embed_pictures`."""
        found: Mapping[str, Vectors] = await self._stage.call(
            "embed_pictures", list(pictures), self._collections, deadline=deadline
        )
        return found

    def _warm_here(self) -> None:
        for projection in self._projections.values():  # the weights of spaces for a query are read out of them
            projection.warm_up()


class RemoteGenerator(Generator):
    """Meets `generators.base.Generator` by asking the deployment of one engine.

    Args:
        stage: The deployment.
        local: The same engine in this process, never warmed up; says what it can without its model.
        describe: Ask at warm-up what the engine is. Not for one that may have no replica: asking would start one.
    """

    def __init__(self, stage: StageCall, local: Generator, *, describe: bool = True) -> None:
        self.name = local.name
        self.version = ""
        self.guides_a_call = local.guides_a_call
        self.cacheable = False  # until its version is known: pictures are kept under it
        self._stage = stage
        self._describe = describe

    async def warm_up(self) -> None:
        """See `Generator.warm_up`; the model itself is loaded by the replica, before it is asked anything."""
        if self._describe:
            self._take(await self._stage.call("describe"))

    async def generate(self, request: GuideRequest) -> list[Guide]:
        """See `Generator.generate`."""
        if request.n < 1:
            return []
        sent = replace(request, deadline=None)  # of this process's clock
        try:
            description, guides = await self._stage.call("generate", sent, deadline=request.deadline)
        except TimeoutError as error:
            late = DeadlineExceededError(f"no guides of {self.name!r} in time", hint="allow the query more time")
            raise late from error
        except OverloadedError as error:
            error.details["charged"] = False  # it was never begun
            raise
        self._take(description)
        found: list[Guide] = guides
        return found

    def _take(self, description: Description) -> None:
        self.version = description.version
        self.guides_a_call = description.guides_a_call
        self.cacheable = description.cacheable
