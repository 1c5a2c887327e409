"""Progress of a run as the catalog, the API and the metrics have it: rates by stage, what limits it, and the time left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from lodestone.indexing.progress import ProgressEvent, RunStage
from lodestone.indexing.stage_stats import StageShare, limiting
from lodestone_schemas.runs import GpuUse, RunProgress, StageProgress

_SURE: Final = 0.5  # busy share below which no stage is said to limit the others: they all wait for something else


def run_progress(event: ProgressEvent, *, stages: Sequence[StageShare] = (), gpus: Iterable[GpuUse] = ()) -> RunProgress:
    """Return the progress that an event tells.

    Args:
        event: The last event.
        stages: Work of the embedding stages, where the event itself does not tell it any more.
        gpus: Use of the GPUs now.
    """
    shares = event.stages or stages
    return RunProgress(
        stage=event.stage.value,
        detail=event.detail,
        done=event.done,
        total=event.total,
        rate=round(event.rate, 2),
        seconds_left=None if event.eta is None else round(event.eta, 1),
        limited_by=limited_by(event),
        stages=[stage_progress(share) for share in shares],
        gpus=list(gpus),
    )


def limited_by(event: ProgressEvent) -> str | None:
    """Return the stage that limits the run now: fetch, decode, embed, write or load; None where none is clearly busiest."""
    if event.stage is RunStage.LOAD:
        return RunStage.LOAD.value
    return limiting_stage(event.stages) if event.stage is RunStage.EMBED else None


def limiting_stage(shares: Sequence[StageShare]) -> str | None:
    """Return the embedding stage that limits the others, if one is busy for at least half of its time."""
    stage = limiting(share for share in shares if share.busy >= _SURE)
    return None if stage is None else stage.value


def stage_progress(share: StageShare) -> StageProgress:
    """Return the work of a stage as the API has it."""
    return StageProgress(
        stage=share.stage.value,
        pictures=share.pictures,
        rate=round(share.rate, 2),
        busy=round(share.busy, 3),
        waiting=share.waiting,
    )
