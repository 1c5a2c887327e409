"""Which messages do the queue of background indexing and its child process exchange? Small, frozen and picklable."""

from __future__ import annotations

from dataclasses import dataclass

from lodestone.config.settings import Settings
from lodestone.directories.queue import IndexOrder
from lodestone.errors import LodestoneError
from lodestone.indexing.progress import ProgressEvent
from lodestone.indexing.run.report import IndexReport


@dataclass(frozen=True, slots=True)
class Start:
    """To the child, first: what to do, where."""

    settings: Settings
    order: IndexOrder


@dataclass(frozen=True, slots=True)
class Cancel:
    """To the child: stop, keeping what is finished."""


@dataclass(frozen=True, slots=True)
class WantsSync:
    """From the child: bring the collections in line, and say when that is done. `build` also makes graphs."""

    run_id: str
    build: bool = True


@dataclass(frozen=True, slots=True)
class Synced:
    """To the child: done, or what went wrong."""

    error: LodestoneError | None = None


@dataclass(frozen=True, slots=True)
class Progressed:
    """From the child: a step forward."""

    event: ProgressEvent


@dataclass(frozen=True, slots=True)
class Finished:
    """From the child, last: the run ended well."""

    report: IndexReport


@dataclass(frozen=True, slots=True)
class JobFailed:
    """From the child, last: the run did not end well; without an error, it was cancelled."""

    error: LodestoneError | None = None
