"""Deployment of one guide engine: its replicas hold the engine's model and draw guides.

Each engine is a deployment, `Generator-NAME`, with replicas, GPUs and limits of its own. Guides are drawn as the engine draws
them in one process: guide i of a prompt and a seed is the same picture, whichever replica draws it. Guides of one call may be
drawn together, those of different calls never are, and each is sent as soon as it is drawn. Semaphore, budget, breaker and
cache stay with the calling hub.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from lodestone.generators.base import Guide, GuideRequest
from lodestone_serve.graph.adapters import Description
from lodestone_serve.graph.calls import from_the_wire
from lodestone_serve.graph.replicas import Host, Replica, with_own_threads
from lodestone_serve.telemetry.tracing import Carrier, Tracing


class GeneratorReplica(Replica):
    """A replica of one engine.

    Args:
        host: Reads the settings.
        name: Name of the engine's section in them.
    """

    async def __init__(self, host: Host, name: str) -> None:  # type: ignore[misc]  # Serve awaits it
        from lodestone.home.runtime import Runtime

        with host.noted():
            settings = with_own_threads(host.prepare())
            self._tracing = Tracing(settings.serve.telemetry, service=f"lodestone-generator-{name}")
            runtime = Runtime.open(settings, purpose=f"a replica of Generator-{name}")
            self._generator = runtime.guide_engine(name).generator
            await self._generator.warm_up()

    async def describe(
        self,
        *,
        until: float | None = None,  # noqa: ARG002 - every method has it
        trace: Carrier | None = None,  # noqa: ARG002 - as above
    ) -> Description:
        """Return the engine's version, its guides per call, and whether its guides may be cached."""
        return Description(
            await asyncio.to_thread(lambda: self._generator.version),
            self._generator.guides_a_call,
            self._generator.cacheable,
        )

    async def stream(
        self, request: GuideRequest, *, until: float | None = None, trace: Carrier | None = None
    ) -> AsyncGenerator[Description | list[Guide], None]:
        """Yield the engine's description, and then its guides as they come; raises as `Generator.generate`.

        `until` is the deadline on the wall clock. When the caller goes away, Serve cancels this, and the drawing ends.
        """
        with self._tracing.received(trace, f"Generator-{self._generator.name}.stream"):
            async with aclosing(self._generator.stream(replace(request, deadline=from_the_wire(until)))) as batches:
                yield await self.describe()
                async for guides in batches:
                    yield guides
