"""How is a folder indexed with everything that this machine has? The index run of the library, on Ray Data where that pays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lodestone.indexing.progress import Progress, ProgressEvent, RunStage, silent
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.indexing.sync.catching_up import SyncCall
from lodestone_jobs.pools import ray_pool
from lodestone_schemas.api import SyncRequest

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime
    from lodestone.home.service_address import ServiceClient

_STAGES = {stage.value: stage for stage in RunStage}


def run_index(
    runtime: Runtime,
    paths: Sequence[Path | str] = (),
    *,
    corpus: str = "default",
    captions: Path | None = None,
    retry_failed: bool = False,
    resume: str | None = None,
    service: ServiceClient | None = None,
    progress: Progress = silent,
) -> IndexReport:
    """Index paths. `auto` embeds in this process below two slices, else in processes of its own, on GPUs and clusters with Ray.

    Args:
        runtime: The opened home.
        paths: Folders, files, URLs, tables, archives.
        corpus: Name of the corpus.
        captions: Table of captions.
        retry_failed: Try unchanged files again that failed before.
        resume: Finish what this run of the corpus left instead; "" for the last one.
        service: The running service of this home: it owns the store and loads what is embedded here. None: this process does.
        progress: Told of every step.

    Raises:
        LodestoneError: as `index_paths`.
    """
    request = IndexRequest(tuple(paths), corpus=corpus, captions=captions, retry_failed=retry_failed, resume=resume)
    synchronise = None if service is None else through(service)
    with ray_pool(runtime, [str(path) for path in paths]) as pool:
        return index_paths(runtime, request, pool=pool, synchronise=synchronise, progress=progress)


def through(service: ServiceClient) -> SyncCall:
    """A sync that the running service does."""

    def synchronise(run_id: str, progress: Progress, *, build: bool = True) -> None:
        for step in service.sync(SyncRequest(run_id=run_id, build=build)):
            stage = _STAGES.get(step.stage)
            if stage is not None:
                progress(ProgressEvent(stage, done=step.done, total=step.total, detail=step.collection))

    return synchronise
