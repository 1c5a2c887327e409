"""The deployment `Fusion`, which fuses the lists of queries, and the adapter through which the engine calls it.

It is off by default: what it takes from the ingress is less work than sending the lists there (docs/adr/0017). Lists travel as
arrays: each id once, and for every list the rows of its ids. The fused ranking is that of one process, to the bit. When the
deployment is missing, full or late, the ingress fuses by itself, so that no answer depends on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import LodestoneError
from lodestone.retrieval.fusion import FusedList, RankedList, fuse_in_tiers
from lodestone_serve.graph.calls import StageCall
from lodestone_serve.graph.replicas import Host, Replica
from lodestone_serve.telemetry.tracing import Carrier, Tracing

Rows = NDArray[np.int32]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PackedList:
    """A `RankedList` whose ids are `rows` of a table, (len(scores),) int32; the other attributes are those of the list."""

    guide: str
    space: str
    weight: float
    rows: Rows
    scores: NDArray[np.float32]
    scale: float


@dataclass(frozen=True, slots=True)
class FusionCall:
    """The lists of one query on their way.

    Attributes:
        name: Name of the fusion.
        depths: See `fuse_in_tiers`.
        ids: All ids, each once.
        found: The lists as the searches gave them.
        completed: The same lists with every candidate's score; None where they are the found ones.
    """

    name: str
    depths: tuple[int, ...]
    ids: tuple[str, ...]
    found: tuple[PackedList, ...]
    completed: tuple[PackedList, ...] | None

    @classmethod
    def pack(
        cls, name: str, found: Sequence[RankedList], completed: Sequence[RankedList], *, depths: Sequence[int]
    ) -> FusionCall:
        """Pack the arguments of `fuse_in_tiers`."""
        same = len(found) == len(completed) and all(a is b for a, b in zip(found, completed, strict=True))
        lists = [*found, *(() if same else completed)]
        row: dict[str, int] = {}
        for ranked in lists:
            for image_id in ranked.ids:
                row.setdefault(image_id, len(row))
        packed = tuple(_packed(ranked, row) for ranked in lists)
        return cls(name, tuple(depths), tuple(row), packed[: len(found)], None if same else packed[len(found) :])

    def fuse(self) -> tuple[Rows, NDArray[np.float64]]:
        """Return the fused list: rows of `ids`, best first, (n,) int32, and their scores, (n,) float64."""
        found = [_unpacked(ranked, self.ids) for ranked in self.found]
        completed = found if self.completed is None else [_unpacked(ranked, self.ids) for ranked in self.completed]
        fused = fuse_in_tiers(self.name, found, completed, depths=self.depths)
        row = {image_id: number for number, image_id in enumerate(self.ids)}
        return np.fromiter((row[image_id] for image_id in fused.ids), np.int32, len(fused)), fused.scores


class Fusion(Replica):
    """A replica of the deployment. It needs no home, no model and no store.

    Args:
        host: Reads the settings.
    """

    def __init__(self, host: Host) -> None:
        with host.noted():
            self._tracing = Tracing(host.prepare().serve.telemetry, service="lodestone-fusion")

    async def fuse(
        self,
        call: FusionCall,
        *,
        until: float | None = None,  # noqa: ARG002 - every method has it
        trace: Carrier | None = None,
    ) -> tuple[Rows, NDArray[np.float64]]:
        """Return what `FusionCall.fuse` returns."""
        with self._tracing.received(trace, "Fusion.fuse"):
            return await asyncio.to_thread(call.fuse)


class RemoteFuser:
    """Implements `retrieval.fuser.Fuser` by calling the deployment `Fusion`.

    Args:
        stage: The deployment.
    """

    def __init__(self, stage: StageCall) -> None:
        self._stage = stage

    async def fuse(
        self,
        name: str,
        found: Sequence[RankedList],
        completed: Sequence[RankedList],
        *,
        depths: Sequence[int],
        deadline: float | None = None,
    ) -> FusedList:
        """Return the list that a replica fused, or this process where none did in time."""
        call = FusionCall.pack(name, found, completed, depths=depths)
        try:
            rows, scores = await self._stage.call("fuse", call, deadline=deadline)
        except (LodestoneError, TimeoutError) as error:
            _log.warning("the lists of a query are fused in the ingress: %s", error)
            return fuse_in_tiers(name, found, completed, depths=depths)
        return FusedList(tuple(call.ids[row] for row in rows.tolist()), scores)


def _packed(ranked: RankedList, row: dict[str, int]) -> PackedList:
    rows = np.fromiter((row[image_id] for image_id in ranked.ids), np.int32, len(ranked.ids))
    return PackedList(ranked.guide, ranked.space, ranked.weight, rows, ranked.scores, ranked.scale)


def _unpacked(packed: PackedList, ids: Sequence[str]) -> RankedList:
    named = tuple(ids[row] for row in packed.rows.tolist())
    return RankedList(packed.guide, packed.space, packed.weight, named, packed.scores, packed.scale)
