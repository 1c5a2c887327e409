"""Deployment of one guide engine: its replicas hold the engine's model and draw guides.

Each engine is a deployment, `Generator-NAME`, with replicas, GPUs and limits of its own. Guides are drawn as the engine draws
them in one process: guide i of a prompt and a seed is the same picture, whichever replica draws it, and so is never batched
with others'. Semaphore, budget, breaker and cache stay with the calling hub.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from lodestone.generators.base import Guide, GuideRequest
from lodestone_serve.graph.adapters import Description
from lodestone_serve.graph.deadlines import from_the_wire
from lodestone_serve.graph.replicas import Host, threads_turn, with_own_threads
from lodestone_serve.telemetry.tracing import Carrier, Tracing


class GeneratorReplica:
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

    async def check_health(self) -> None:
        """Raise when the replica can no longer answer."""
        await threads_turn()

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

    async def generate(
        self, request: GuideRequest, *, until: float | None = None, trace: Carrier | None = None
    ) -> tuple[Description, list[Guide]]:
        """Return the engine's description and the guides; raises as `Generator.generate`.

        `until` is the deadline on the wall clock.
        """
        with self._tracing.received(trace, f"Generator-{self._generator.name}.generate"):
            guides = await self._generator.generate(replace(request, deadline=from_the_wire(until)))
        return await self.describe(), guides
