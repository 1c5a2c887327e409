"""What does background indexing promise? Orders are taken at once, worked on one after the other, and can be looked at.

`RunQueue` is the contract; `ChildQueue` (child_queue.py) does the work in a child process, so that queries in this one keep
their threads and a picture that kills a decoder kills nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal, Self

from lodestone_schemas.directories import JobInfo

Reason = Literal["added", "asked", "watched", "repair"]


@dataclass(frozen=True, slots=True)
class IndexOrder:
    """What to index in the background.

    Attributes:
        corpus: Name.
        paths: Folders, files or URLs, as `lodestone index` takes them.
        reason: Why: shown to people.
        retry_failed: Try unchanged files again that failed before.
        resume: Finish what the last run of the corpus left instead of looking for files; `paths` are not needed then.
    """

    corpus: str
    paths: tuple[str, ...]
    reason: Reason = "asked"
    retry_failed: bool = False
    resume: bool = False

    def joined(self, other: Self) -> Self | None:
        """One order that does what both ask for; None when they cannot be one."""
        if (self.corpus, self.retry_failed) != (other.corpus, other.retry_failed):
            return None
        paths = outermost((*self.paths, *other.paths))
        return replace(self, paths=paths, resume=self.resume and other.resume)  # looking for files finishes what is left, too


class RunQueue(ABC):
    """Orders waiting for their turn. Methods are thread-safe and return at once."""

    @abstractmethod
    def submit(self, order: IndexOrder) -> JobInfo:
        """Take an order. One that is waiting for the same corpus takes it over: its job is returned.

        Raises:
            ServiceUnavailableError: the queue is closed.
        """

    @abstractmethod
    def jobs(self) -> list[JobInfo]:
        """What goes on, what waits and what ended last; oldest first."""

    @abstractmethod
    def cancel(self, job_id: str) -> JobInfo:
        """Take an order back, or stop working on it; what is finished is kept.

        Raises:
            NotFoundError: there is no such job.
        """

    @abstractmethod
    def withdraw(self, path: str) -> None:
        """Take back what is ordered below `path`, and return once nothing is at work on that alone any more. Blocks.

        An order that names other paths as well goes on.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop what goes on (the next start takes it up), forget what waits. Idempotent."""

    def busy(self) -> set[str]:
        """Names of corpora with work that goes on or waits."""
        return {job.corpus for job in self.jobs() if job.state in {"waiting", "running"}}


def outermost(paths: Collection[str]) -> tuple[str, ...]:
    """The paths without those that lie inside another of them, in order; URLs are compared as they are."""
    known = set(paths)
    return tuple(sorted(path for path in known if not any(str(parent) in known for parent in PurePath(path).parents)))
