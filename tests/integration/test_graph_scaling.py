"""Ray Serve itself adds replicas of `Encoders` when their passes are full, and only then."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(300)]

# In a process of its own: this one may be connected to another Ray.
SCRIPT = '''
import asyncio, sys, time

from ray import serve

from lodestone.config.settings import load_settings
from lodestone_serve.graph.policy import OCCUPANCY
from lodestone_serve.graph.stages import ENCODERS, deployment_options
from lodestone_serve.hosting.local_ray import local_ray
from lodestone_serve.inference.lanes import Lane


class Passes:
    """A lane whose passes hold 8 items and take 50 ms, scaled as Encoders are."""

    def __init__(self):
        import numpy as np

        def run(items):
            time.sleep(0.05)
            return {"space": np.zeros((len(items), 1), np.float32)}

        self.lane = Lane(run, most=8)

    def record_autoscaling_stats(self):
        return {OCCUPANCY: self.lane.occupancy()}

    async def encode(self, items):
        await self.lane.ask(items)


graph = {"shape": "graph", "encoders": {"max_replicas": 2, "cpus": 0, "upscale_delay_s": 0, "max_ongoing": 100}}
options = deployment_options(load_settings({"serve": {"graph": graph}}).settings)[ENCODERS]
del options["user_config"]


async def press(handle, calls, items, seconds):
    """So many callers at once; returns the most replicas that ran."""
    until, most = time.monotonic() + seconds, 0

    async def calling():
        while time.monotonic() < until and most < 2:
            await handle.encode.remote(list(range(items)))

    callers = [asyncio.create_task(calling()) for _ in range(calls)]
    while time.monotonic() < until and most < 2:
        await asyncio.sleep(0.5)
        states = serve.status().applications["scaled"].deployments[ENCODERS].replica_states
        most = max(most, states.get("RUNNING", 0))
    await asyncio.gather(*callers)
    return most


with local_ray():
    handle = serve.run(serve.deployment(name=ENCODERS, **options)(Passes).bind(), name="scaled", route_prefix=None)
    # More calls than `target_ongoing` (4), which share passes: 5 of 8 items. Then fewer calls, which do not fit into them.
    print("replicas:", asyncio.run(press(handle, 5, 1, 15)), asyncio.run(press(handle, 3, 8, 60)))
    serve.shutdown()
'''


def test_full_passes_bring_a_replica_and_calls_that_share_them_do_not() -> None:
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "replicas: 1 2" in ended.stdout
