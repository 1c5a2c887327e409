"""One Ray for all tests of a session: starting one takes seconds. Import the fixture where it is used."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """A Ray that this process is connected to; executors use it and leave it running."""
    pytest.importorskip("ray")
    from lodestone_jobs.cluster import LocalRay

    cluster = LocalRay(workers=2)
    cluster.start()
    try:
        yield
    finally:
        cluster.stop()
