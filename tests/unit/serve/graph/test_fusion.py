"""Lists that another process fuses are fused as here, to the bit, and here where there is no such process."""

from __future__ import annotations

import asyncio
import pickle
import time
from types import SimpleNamespace

import numpy as np
import pytest
from ray.exceptions import ActorDiedError
from ray.serve.exceptions import BackPressureError

from lodestone.errors import UnknownNameError
from lodestone.retrieval.fusion import FUSIONS, RankedList, fuse_in_tiers
from lodestone_serve.graph.calls import StageCall
from lodestone_serve.graph.fusion import FusionCall, RemoteFuser


def lists(seed: int, *, count: int = 4, ids: int = 300) -> list[RankedList]:
    """Lists with equal scores, ids in common, a weight of 0, an empty one, and scores that no short decimal number is."""
    rng = np.random.default_rng(seed)
    names = [f"{number:032x}" for number in rng.integers(0, 2**62, ids)]
    made = []
    for number in range(count):
        chosen = [names[row] for row in rng.permutation(ids)[: rng.integers(1, ids)]]
        scores = np.sort(rng.normal(size=len(chosen)).round(1).astype(np.float32) / 3)[::-1].copy()
        made.append(RankedList(f"g/{number}", "s", float(rng.random()), tuple(chosen), scores, float(rng.random() + 0.1)))
    return [
        *made,
        RankedList("none", "s", 0.0, (names[0],), np.ones(1, np.float32)),
        RankedList("e", "s", 1.0, (), np.empty(0)),
    ]


class There:
    """As the handle of the deployment: everything is pickled on its way there and back, or `lost`."""

    def __init__(self, lost: Exception | None = None):
        self.lost, self.calls = lost, 0
        self.fuse = SimpleNamespace(remote=lambda *sent, **named: asyncio.ensure_future(self._remote(*sent, **named)))

    async def _remote(self, call: FusionCall, **_named: object) -> object:
        self.calls += 1
        if self.lost is not None:
            raise self.lost
        return pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(call)).fuse()))


@pytest.mark.parametrize("name", [*FUSIONS, "needle"])
@pytest.mark.parametrize("depths", [(40,), (10, 40, 200)])
async def test_lists_fused_there_are_those_fused_here_to_the_bit(name: str, depths: tuple[int, ...]):
    for seed in range(5):
        there = There()
        found, completed = lists(seed), lists(seed)
        if name == "mean_distance":  # every candidate's score, as the searcher completes them
            completed = [one if one.weight == 0 else RankedList("*", "s", *_whole(one, found)) for one in found if one.ids]
        fused = await RemoteFuser(StageCall("Fusion", there)).fuse(name, found, completed, depths=depths)
        expected = fuse_in_tiers(name, found, completed, depths=depths)
        assert there.calls == 1
        assert fused.ids == expected.ids
        assert fused.scores.dtype == expected.scores.dtype
        assert fused.scores.tobytes() == expected.scores.tobytes()


def _whole(one: RankedList, found: list[RankedList]) -> tuple[float, tuple[str, ...], np.ndarray, float]:
    union = sorted(set().union(*(other.ids for other in found)))
    rest = [image_id for image_id in union if image_id not in set(one.ids)]
    low = np.linspace(-2, -3, len(rest), dtype=np.float32)
    return one.weight, (*one.ids, *rest), np.concatenate([one.scores, low]), one.scale


def test_each_id_is_sent_once_and_lists_that_are_the_same_too():
    found = lists(1)
    call = FusionCall.pack("rrf", found, found, depths=(40,))
    assert len(set(call.ids)) == len(call.ids)
    assert call.completed is None
    other = FusionCall.pack("rrf", found, lists(2), depths=(40,))
    assert other.completed is not None


@pytest.mark.parametrize("lost", [ActorDiedError(), BackPressureError(9, 9), TimeoutError("late")])
async def test_without_the_deployment_lists_are_fused_here(lost: Exception, caplog: pytest.LogCaptureFixture):
    fuser, found = RemoteFuser(StageCall("Fusion", There(lost))), lists(3)
    fused = await fuser.fuse("rrf", found, found, depths=(40,), deadline=time.monotonic() + 5)
    assert fused.ids == fuse_in_tiers("rrf", found, found, depths=(40,)).ids
    assert "fused in the ingress" in caplog.text
    assert (await fuser.fuse("rrf", found, found, depths=(40,), deadline=time.monotonic() - 1)).ids == fused.ids


async def test_a_fusion_that_does_not_exist_is_refused_as_here():
    with pytest.raises(UnknownNameError, match="magic"):
        await RemoteFuser(StageCall("Fusion", There(UnknownNameError("no fusion 'magic'")))).fuse("magic", [], [], depths=(4,))
