"""Adapters through which the engine uses deployed stages: they implement its contracts and call Serve handles."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from lodestone.errors import DeadlineExceededError, OverloadedError
from lodestone.generators.base import Generator, Guide, GuideRequest
from lodestone.query.contracts import EncodedTexts, Pixels, Vectors
from lodestone.spaces.base import Projection
from lodestone_serve.graph.calls import StageCall


@dataclass(frozen=True, slots=True)
class Description:
    """Facts about a generator that only a process which loads it knows.

    Attributes:
        version: Version of its model and adapter.
        guides_a_call: Most guides of one call; None for any number.
        cacheable: See `Generator.cacheable`.
    """

    version: str
    guides_a_call: int | None
    cacheable: bool


class RemoteEncoder:
    """Implements `query.stages.Encoder` by calling the deployment `Encoders`.

    Every call names the collections that the vectors will be compared with, so that vectors of two versions are never compared,
    whichever replica answers.

    Args:
        stage: The deployment.
        projections: Space -> the version to search; kept in this process, light, for the engine's direct use.
    """

    def __init__(self, stage: StageCall, projections: Mapping[str, Projection]) -> None:
        self._stage = stage
        self._projections = dict(projections)
        self._collections = {space: projection.collection for space, projection in projections.items()}

    @property
    def collections(self) -> Mapping[str, str]:
        """Return space -> collection of the versions to search."""
        return self._collections

    async def warm_up(self) -> None:
        """Load the weights of small projections in this process, and the models in the replicas."""
        await asyncio.gather(asyncio.to_thread(self._warm_projections), self._stage.call("load", self._collections))

    async def encode_texts(self, texts: Sequence[str], *, deadline: float | None = None) -> EncodedTexts:
        """Encode the texts in a replica of `Encoders`, as `Encoder.encode_texts` does."""
        encoded: EncodedTexts = await self._stage.call("encode_texts", list(texts), self._collections, deadline=deadline)
        return encoded

    async def embed_pictures(self, pictures: Sequence[Pixels], *, deadline: float | None = None) -> Mapping[str, Vectors]:
        """Embed the pictures in a replica of `Encoders`, as `Encoder.embed_pictures` does."""
        embedded: Mapping[str, Vectors] = await self._stage.call(
            "embed_pictures", list(pictures), self._collections, deadline=deadline
        )
        return embedded

    def _warm_projections(self) -> None:
        for projection in self._projections.values():  # a query's space weights are computed from them
            projection.warm_up()


class RemoteGenerator(Generator):
    """Implements `generators.base.Generator` by calling the deployment of one engine.

    Args:
        stage: The deployment.
        local: The same engine in this process, never warmed up; gives the facts that need no model.
        describe: Ask for the engine's description at warm-up. False for a deployment that may have no replica: the call would
            start one.
    """

    def __init__(self, stage: StageCall, local: Generator, *, describe: bool = True) -> None:
        self.name = local.name
        self.version = ""
        self.guides_a_call = local.guides_a_call
        self.edits = local.edits
        self.cacheable = False  # until its version is known, because it is part of a cached guide's key
        self._stage = stage
        self._streaming: StageCall | None = None
        self._describe = describe

    async def warm_up(self) -> None:
        """Fetch the engine's description. The replica loads the model itself before its first call."""
        if self._describe:
            self._take(await self._stage.call("describe"))

    async def generate(self, request: GuideRequest) -> list[Guide]:
        """Return guides drawn by a replica of the engine; raises as `stream`."""
        async with aclosing(self.stream(request)) as batches:
            return [guide async for guides in batches for guide in guides]

    async def stream(self, request: GuideRequest) -> AsyncGenerator[list[Guide], None]:
        """Yield guides as a replica of the engine draws them; closing the iterator ends the drawing there.

        Raises:
            DeadlineExceededError: the deadline passed before the replica answered.
            OverloadedError: too many calls wait for the engine.
        """
        if request.n < 1:
            return
        sent = replace(request, deadline=None)  # it is on this process's clock
        try:
            self._streaming = self._streaming or self._stage.streaming()
            async with aclosing(self._streaming.stream("stream", sent, deadline=request.deadline)) as parts:
                async for part in parts:
                    if isinstance(part, Description):
                        self._take(part)
                    else:
                        yield part
        except TimeoutError as error:
            expired = DeadlineExceededError(f"no guides of {self.name!r} in time", hint="allow the query more time")
            raise expired from error
        except OverloadedError as error:
            error.details["charged"] = False  # the call never started
            raise

    def _take(self, description: Description) -> None:
        self.version = description.version
        self.guides_a_call = description.guides_a_call
        self.cacheable = description.cacheable
