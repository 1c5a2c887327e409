"""Three rounds of chaos on a cluster, each kind of SIGKILL in one of them: ids, counts and vectors as if nothing had happened.

`make chaos` plays twenty, in which the head of the Ray cluster dies too (here: tests/integration/test_index_head_lost.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.chaos.cluster import chaos_cluster
from tests.chaos.rounds import run_rounds

pytestmark = [pytest.mark.chaos, pytest.mark.ray, pytest.mark.server, pytest.mark.slow, pytest.mark.nightly]

_ROUNDS = {101: ("worker", "postgres"), 102: ("ray", "driver"), 103: ("qdrant",)}


@pytest.mark.timeout(600)
def test_nothing_is_lost_or_doubled_whatever_dies(
    qdrant_binary: Path,
    postgres_binaries: Path,
    tmp_path: Path,
) -> None:
    with chaos_cluster(tmp_path, qdrant=qdrant_binary, postgres=postgres_binaries) as cluster:
        assert run_rounds(cluster, list(_ROUNDS), _ROUNDS.__getitem__) == []
