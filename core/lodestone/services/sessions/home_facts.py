"""Facts of a home for monitoring: pictures, points, what waits, what failed, trust, runs and free disk."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lodestone.catalog.records import ImageState, RunState
from lodestone_schemas.directories import JobInfo
from lodestone_schemas.learning import TrustInfo
from lodestone_schemas.runs import RunProgress

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime

_RUNS: Final = 1_000


@dataclass(frozen=True, slots=True)
class RunningRuns:
    """Runs of one kind that count as running.

    Attributes:
        count: How many.
        oldest_heartbeat: When the quietest gave its last sign of life, Unix seconds.
        progress: What each of them last told of its progress.
    """

    count: int
    oldest_heartbeat: float
    progress: tuple[RunProgress, ...] = ()


@dataclass(frozen=True, slots=True)
class HomeFacts:
    """Facts of a home at one moment, for monitoring.

    Attributes:
        images: State -> number of pictures.
        points: Space -> points of the collection that it is searched in.
        unloaded: Space -> slices that are embedded and not in that collection.
        outbox: Pictures whose tags wait for delivery.
        failures: Files that could not be used.
        trust: Space -> learnt trust, 1 being neutral: the mean over topics, each counting by its queries.
        topics: How many topics trust was learnt for.
        runs: Kind -> those that count as running.
        jobs: Background jobs of this process.
        disk_free: Bytes, where the home lies.
        disk_size: Bytes.
        synced_at: When this process last brought the collections in line, Unix seconds; None if it did not yet.
    """

    images: Mapping[str, int]
    points: Mapping[str, int]
    unloaded: Mapping[str, int]
    outbox: int
    failures: int
    trust: Mapping[str, float]
    topics: int
    runs: Mapping[str, RunningRuns]
    jobs: Sequence[JobInfo]
    disk_free: int
    disk_size: int
    synced_at: float | None = None


def home_facts(
    runtime: Runtime, *, collections: Mapping[str, str], jobs: Sequence[JobInfo], synced_at: float | None = None
) -> HomeFacts:
    """Return the facts of an opened home. Blocks.

    Args:
        runtime: The home.
        collections: Space -> the collection that it is searched in.
        jobs: Of the process.
        synced_at: As `HomeFacts` has it.

    Raises:
        CatalogError, StoreError: it cannot be read.
    """
    catalog, store = runtime.catalog, runtime.store
    present = set(store.collections())
    topics = runtime.trust.show().topics
    disk = shutil.disk_usage(runtime.home.path)
    return HomeFacts(
        images={state.value: catalog.count_images(None, state) for state in ImageState},
        points={space: store.count(name) if name in present else 0 for space, name in collections.items()},
        unloaded={space: catalog.count_unloaded(name)[0] for space, name in collections.items()},
        outbox=catalog.count_tag_outbox(),
        failures=catalog.count_failures(),
        trust=_mean_trust(topics),
        topics=len(topics),
        runs=_running(runtime),
        jobs=list(jobs),
        disk_free=disk.free,
        disk_size=disk.total,
        synced_at=synced_at,
    )


def _mean_trust(topics: Sequence[TrustInfo]) -> dict[str, float]:
    sums: dict[str, float] = {}
    counts: dict[str, float] = {}
    for topic in topics:
        for space, weight in topic.weights.items():
            sums[space] = sums.get(space, 0.0) + weight * max(1, topic.queries)
            counts[space] = counts.get(space, 0.0) + max(1, topic.queries)
    return {space: sums[space] / counts[space] for space in sums}


def _running(runtime: Runtime) -> dict[str, RunningRuns]:
    running: dict[str, RunningRuns] = {}
    for run in runtime.catalog.runs(_RUNS, state=RunState.RUNNING):
        alive = (run.heartbeat_at or run.started_at).timestamp()
        before = running.get(run.kind, RunningRuns(0, alive))
        progress = (RunProgress.model_validate(run.progress),) if run.progress else ()
        running[run.kind] = RunningRuns(before.count + 1, min(before.oldest_heartbeat, alive), (*before.progress, *progress))
    return running
