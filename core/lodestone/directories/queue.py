"""Contract of background indexing: orders are accepted at once, worked on one after the other, and can be listed.

`RunQueue` is the contract. `ChildQueue` (child_queue.py) works in a child process, so that queries in this process keep their
threads, and a picture that crashes a decoder crashes nothing else.
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
    """Describes what to index in the background.

    Attributes:
        corpus: Name of the corpus.
        paths: Folders, files or URLs, as `lodestone index` takes them.
        reason: Reason for the order, shown to people.
        retry_failed: Whether unchanged files that failed before are tried again.
        resume: Whether to finish what the last run of the corpus left, without a scan for files; `paths` may then be empty.
    """

    corpus: str
    paths: tuple[str, ...]
    reason: Reason = "asked"
    retry_failed: bool = False
    resume: bool = False

    def joined(self, other: Self) -> Self | None:
        """Return one order that does what both orders demand, or None when they cannot be joined."""
        if (self.corpus, self.retry_failed) != (other.corpus, other.retry_failed):
            return None
        paths = outermost((*self.paths, *other.paths))
        return replace(self, paths=paths, resume=self.resume and other.resume)  # a scan also finishes what is left


class RunQueue(ABC):
    """Accepts orders and works on them one after the other; methods are thread-safe, and return at once unless stated."""

    @abstractmethod
    def submit(self, order: IndexOrder) -> JobInfo:
        """Accept an order and return its job.

        If an order for the same corpus is waiting, and both or neither try failed files again, the two are joined, and the
        waiting order's job is returned.

        Raises:
            ServiceUnavailableError: the queue is closed.
        """

    @abstractmethod
    def jobs(self) -> list[JobInfo]:
        """Return the jobs that ended last, that run and that wait; oldest first."""

    @abstractmethod
    def cancel(self, job_id: str) -> JobInfo:
        """Cancel an order, or stop working on it; what is finished is kept.

        Raises:
            NotFoundError: there is no such job.
        """

    @abstractmethod
    def withdraw(self, path: str) -> None:
        """Remove everything below `path` from the orders, and return once no run works on that alone. Blocks.

        An order that names other paths as well continues.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop the running order, which the next start resumes, and forget the waiting ones. Idempotent."""

    def busy(self) -> set[str]:
        """Return the names of corpora with a running or waiting order."""
        return {job.corpus for job in self.jobs() if job.state in {"waiting", "running"}}


def outermost(paths: Collection[str]) -> tuple[str, ...]:
    """Return the paths without those that lie inside another of them, sorted; URLs are compared as they are."""
    known = set(paths)
    return tuple(sorted(path for path in known if not any(str(parent) in known for parent in PurePath(path).parents)))
