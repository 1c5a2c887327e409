"""What does the deployment of a guide engine do? It holds the engine's model and draws what it is asked for.

Each engine is a deployment, `Generator-NAME`, with replicas, GPUs and limits of its own. Guides are drawn as the engine draws
them in one process: guide i of a prompt and a seed is the same picture, whichever replica draws it, and so is never batched
with others'. Turns, budget, breaker and cache stay with the hub, which asks.
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
        host: Where the settings are.
        name: Of the engine's section in them.
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
        """Fail when nothing can be answered any more."""
        await threads_turn()

    async def describe(
        self,
        *,
        until: float | None = None,  # noqa: ARG002 - of all methods
        trace: Carrier | None = None,  # noqa: ARG002 - as above
    ) -> Description:
        """What the engine is."""
        return Description(
            await asyncio.to_thread(lambda: self._generator.version),
            self._generator.guides_a_call,
            self._generator.cacheable,
        )

    async def generate(
        self, request: GuideRequest, *, until: float | None = None, trace: Carrier | None = None
    ) -> tuple[Description, list[Guide]]:
        """Guides, and what drew them; raises as `Generator.generate`. `until`: the deadline on the wall clock."""
        with self._tracing.received(trace, f"Generator-{self._generator.name}.generate"):
            guides = await self._generator.generate(replace(request, deadline=from_the_wire(until)))
        return await self.describe(), guides
