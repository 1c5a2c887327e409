"""Acknowledged points are still in the embedded store after its owner was killed with SIGKILL, again and again."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.support.points import make_points

from lodestone.store.factory import open_store

DIM = 64
BATCH = 20

WRITE = """
import sys, threading
from pathlib import Path
from lodestone.store.factory import open_store
from lodestone_schemas.collections import CollectionSpec
from tests.support.points import make_points

store = open_store("edge", root=Path(sys.argv[1]), lock_timeout=60, owner="a writer")
store.create(CollectionSpec("pictures-1", 64))
first = store.count("pictures-1")
print("start", first, flush=True)
def keep_building():
    while True:
        store.build("pictures-1")
if sys.argv[2] == "building":
    threading.Thread(target=keep_building, daemon=True).start()
while True:
    store.upsert("pictures-1", make_points(20, 64, seed=first, first=first))
    first += 20
    print(first, flush=True)
"""


def killed_after(root: Path, *, acknowledged: int, mode: str) -> int:
    """Kill a writer once it has acknowledged so many points more; return the last count it told."""
    with subprocess.Popen([sys.executable, "-c", WRITE, str(root), mode], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        start = int(writer.stdout.readline().split()[1])
        for line in writer.stdout:
            if int(line) >= start + acknowledged:
                break
        time.sleep(random.Random(start).random() / 20)  # somewhere inside a later write
        writer.kill()
        told = [int(line) for line in writer.stdout if line.endswith("\n")]
    return told[-1] if told else int(line)


@pytest.mark.chaos
@pytest.mark.parametrize("mode", ["writing", "building"])
def test_every_acknowledged_point_survives_repeated_kills(tmp_path: Path, mode: str) -> None:
    acknowledged = 0
    for amount in (60, 800, 1_500):
        acknowledged = killed_after(tmp_path, acknowledged=amount, mode=mode)
        store = open_store("edge", root=tmp_path, lock_timeout=60)  # a build that was just starting may hold it until it runs
        # At most the one batch that was being written is there besides.
        count = store.count("pictures-1")
        assert acknowledged <= count <= acknowledged + BATCH
        batches = [make_points(BATCH, DIM, seed=first, first=first) for first in range(0, acknowledged, BATCH)]
        for wanted in batches:
            got = store.retrieve("pictures-1", wanted.ids)
            assert list(got.ids) == list(wanted.ids)
            np.testing.assert_allclose(got.vectors, wanted.vectors, atol=1e-6)
        if count % BATCH:
            store.delete("pictures-1", make_points(BATCH, DIM, first=acknowledged).ids)
        store.close()
