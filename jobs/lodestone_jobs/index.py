"""Index run that uses all of this machine, or a cluster: the library's run, on Ray where that is faster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lodestone.indexing.progress import Progress, ProgressEvent, RunStage, silent
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.indexing.stop_request import StopRequest
from lodestone.indexing.sync.catching_up import SyncCall
from lodestone_jobs.pools import ray_pool
from lodestone_schemas.api import SyncRequest

if TYPE_CHECKING:
    from lodestone.home.running_service.client import ServiceClient
    from lodestone.home.runtime import Runtime

_STAGES = {stage.value: stage for stage in RunStage}


def run_index(
    runtime: Runtime,
    paths: Sequence[Path | str] = (),
    *,
    corpus: str = "default",
    captions: Path | None = None,
    retry_failed: bool = False,
    exclude: Sequence[str] = (),
    resume: str | None = None,
    service: ServiceClient | None = None,
    progress: Progress = silent,
    stop: StopRequest | None = None,
) -> IndexReport:
    """Index paths with the executor that the settings choose.

    The executor `auto` embeds in this process below two slices, else in processes of its own, and with Ray on GPUs and
    clusters.

    Args:
        runtime: The opened home.
        paths: Folders, files, URLs, tables, archives.
        corpus: Name of the corpus.
        captions: Table of captions.
        retry_failed: Whether unchanged files that failed before are tried again.
        exclude: Patterns of what is left out of the directories from now on, in gitignore's syntax.
        resume: Run of the corpus to finish, instead of scanning; "" for the last one.
        service: The running service of this home, which owns the store and loads what is embedded here; None when this process
            owns it.
        progress: Progress callback.
        stop: Asks for an early end, before which the pictures under way are finished.

    Raises:
        LodestoneError: `index_paths` failed.
    """
    request = IndexRequest(
        tuple(paths),
        corpus=corpus,
        captions=captions,
        retry_failed=retry_failed,
        resume=resume,
        exclude=tuple(exclude),
    )
    synchronise = None if service is None else through(service)
    with ray_pool(runtime, [str(path) for path in paths]) as pool:
        return index_paths(
            runtime,
            request,
            pool=pool.executor,
            synchronise=synchronise,
            loaders=pool.loaders,
            progress=progress,
            stop=stop,
        )


def through(service: ServiceClient) -> SyncCall:
    """Return a function that has the running service synchronise the collections."""

    def synchronise(run_id: str, progress: Progress, *, build: bool = True) -> None:
        for step in service.sync(SyncRequest(run_id=run_id, build=build)):
            stage = _STAGES.get(step.stage)
            if stage is not None:
                progress(ProgressEvent(stage, done=step.done, total=step.total, detail=step.collection))

    return synchronise
