"""The deployment `Encoders`: it holds all models of a query, and concurrent calls share their passes.

A call brings all texts, or all pictures, of one query, and names the collections that its vectors will be compared with. The
versions in force are loaded before a replica is ready. Others, while a model is being swapped, are loaded when the first call
names them. Texts and pictures have separate lanes, so that texts never wait behind pictures.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import structlog

from lodestone.errors import ServiceUnavailableError
from lodestone.query.contracts import EncodedTexts, Pixels, Vectors
from lodestone_serve.graph.calls import from_the_wire
from lodestone_serve.graph.policy import OCCUPANCY
from lodestone_serve.graph.replicas import Host, Replica, with_own_threads
from lodestone_serve.inference.shared_passes import Passes, SharedEncoder
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.telemetry.ray_metrics import mirror_of_replica
from lodestone_serve.telemetry.tracing import Carrier, Tracing

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime
    from lodestone.spaces.base import Projection

Versions = frozenset[tuple[str, str]]  # space, collection

KEPT: Final = 2  # sets of versions: those in force, and those that a swap prepares or has just retired
BATCH: Final = "batch"  # key of `user_config`: most items of one pass
_log = structlog.get_logger("lodestone.serve")


class Encoders(Replica):
    """A replica of the deployment.

    Every method's `until` is the deadline on the wall clock, its `trace` the caller's (tracing.py).

    Args:
        host: Reads the settings.
        batch: Most items of one pass, until `reconfigure` changes it.
    """

    def __init__(self, host: Host, *, batch: int = 16) -> None:
        from lodestone.home.runtime import Runtime

        self._batch = batch
        self._loaded: OrderedDict[Versions, SharedEncoder] = OrderedDict()
        self._loading: dict[Versions, asyncio.Task[SharedEncoder]] = {}
        self._turn = asyncio.Lock()
        with host.noted():
            settings = with_own_threads(host.prepare())
            self._metrics = Metrics(mirror_of_replica())
            self._tracing = Tracing(settings.serve.telemetry, service="lodestone-encoders")
            self._runtime: Runtime = Runtime.open(settings, purpose="a replica of Encoders")
            self._runtime.home.prepare()
            projections = self._runtime.serving_projections()
            self._loaded[_key(_collections(projections))] = self._load(projections)

    def reconfigure(self, user_config: Mapping[str, Any]) -> None:
        """Apply a new `batch` without a restart."""
        self._batch = int(user_config.get(BATCH, self._batch))
        for versions in self._loaded.values():
            versions.limit(self._batch)

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Return what the deployment scales by; see `graph.policy`. All versions share the replica's hardware."""
        return {OCCUPANCY: sum(versions.occupancy() for versions in self._loaded.values())}

    async def load(
        self,
        collections: Mapping[str, str],
        *,
        until: float | None = None,  # noqa: ARG002 - every method has it
        trace: Carrier | None = None,  # noqa: ARG002 - as above
    ) -> None:
        """Load these versions: space -> collection."""
        await self._versions(collections)

    async def encode_texts(
        self, texts: list[str], collections: Mapping[str, str], *, until: float | None = None, trace: Carrier | None = None
    ) -> EncodedTexts:
        """Encode the texts of one query, as `Encoder.encode_texts` does.

        Raises:
            TimeoutError: no pass began in time.
            ServiceUnavailableError: this replica cannot make the vectors of such a collection.
        """
        deadline = from_the_wire(until)
        with self._tracing.received(trace, "Encoders.encode_texts"):
            return await (await self._versions(collections)).encode_texts(texts, deadline=deadline)

    async def embed_pictures(
        self,
        pictures: list[Pixels],
        collections: Mapping[str, str],
        *,
        until: float | None = None,
        trace: Carrier | None = None,
    ) -> Mapping[str, Vectors]:
        """Embed the pictures of one query, as `Encoder.embed_pictures` does; raises as `encode_texts`."""
        deadline = from_the_wire(until)
        with self._tracing.received(trace, "Encoders.embed_pictures"):
            return await (await self._versions(collections)).embed_pictures(pictures, deadline=deadline)

    async def _versions(self, collections: Mapping[str, str]) -> SharedEncoder:
        key = _key(collections)
        shared = self._loaded.get(key)
        if shared is not None:
            self._loaded.move_to_end(key)
            return shared
        loading = self._loading.get(key)
        if loading is None:
            loading = asyncio.create_task(self._load_more(key, dict(collections)), name="versions of spaces are loaded")
            loading.add_done_callback(_retrieve_error)
            self._loading[key] = loading
        # Not cancelled with its caller: a model that takes longer to load than a query may take would never be loaded.
        return await asyncio.shield(loading)

    async def _load_more(self, key: Versions, collections: Mapping[str, str]) -> SharedEncoder:
        try:
            async with self._turn:  # one model's memory at a time
                _log.info("other versions of spaces are loaded", collections=dict(collections))
                shared = await asyncio.to_thread(self._load_named, collections)
            self._loaded[key] = shared
            while len(self._loaded) > KEPT:
                self._loaded.popitem(last=False)
            return shared
        finally:
            del self._loading[key]

    def _load_named(self, collections: Mapping[str, str]) -> SharedEncoder:
        from lodestone.home.space_versions import version_in

        in_force = self._runtime.projections()
        projections: dict[str, Projection] = {}
        for space, collection in collections.items():
            projection = in_force.get(space)
            if projection is None or projection.collection != collection:
                projection = version_in(self._runtime, space, collection)
            if projection is None:
                raise ServiceUnavailableError(
                    f"this replica of Encoders knows no model for the collection {collection!r} of the space {space!r}",
                    hint="its settings differ from the ingress's: deploy both from one configuration",
                    space=space,
                    collection=collection,
                )
            projections[space] = projection
        return self._load(projections)

    def _load(self, projections: Mapping[str, Projection]) -> SharedEncoder:
        passes = Passes.here(threads=self._runtime.settings.models.threads)
        encoder = self._runtime.local_encoder(projections, text_threads=passes.text_threads)
        encoder.load(pictures=True)
        metrics = self._metrics
        shared = SharedEncoder(
            encoder, passes=passes, observe=metrics.text_batch.observe, observe_pictures=metrics.picture_batch.observe
        )
        shared.limit(self._batch)
        return shared


def _key(collections: Mapping[str, str]) -> Versions:
    return frozenset(collections.items())


def _retrieve_error(loading: asyncio.Task[SharedEncoder]) -> None:
    """Retrieve the error of a failed load, so that asyncio does not log it; callers that still wait receive it."""
    if not loading.cancelled():
        loading.exception()


def _collections(projections: Mapping[str, Projection]) -> dict[str, str]:
    return {space: projection.collection for space, projection in projections.items()}
