"""Messages between the queue of background indexing and its child process: small, frozen and picklable."""

from __future__ import annotations

from dataclasses import dataclass

from lodestone.config.settings import Settings
from lodestone.directories.queue import IndexOrder
from lodestone.errors import LodestoneError
from lodestone.indexing.progress import ProgressEvent
from lodestone.indexing.run.report import IndexReport


@dataclass(frozen=True, slots=True)
class Start:
    """Starts the child's work: what to index, and with which settings. It is the first message to the child."""

    settings: Settings
    order: IndexOrder


@dataclass(frozen=True, slots=True)
class Cancel:
    """Asks the child to stop and to keep what is finished."""


@dataclass(frozen=True, slots=True)
class WantsSync:
    """Asks the parent to synchronise the collections and to answer when that is done; `build` also builds graphs."""

    run_id: str
    build: bool = True


@dataclass(frozen=True, slots=True)
class Synced:
    """Reports to the child that the collections are synchronised, or which error occurred."""

    error: LodestoneError | None = None


@dataclass(frozen=True, slots=True)
class Progressed:
    """Reports a step of progress to the parent."""

    event: ProgressEvent


@dataclass(frozen=True, slots=True)
class Finished:
    """Reports to the parent that the run succeeded; it is the child's last message."""

    report: IndexReport


@dataclass(frozen=True, slots=True)
class JobFailed:
    """Reports to the parent that the run failed, or without an error that it was cancelled; it is the child's last message."""

    error: LodestoneError | None = None
