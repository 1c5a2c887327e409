"""Counters of attempts at a slice, because Ray restarts crashed workers without limit and one picture may crash each of them.

On one machine a file per slice holds the count. On a cluster an actor next to the driver holds it, for as long as the driver
runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Protocol

from lodestone.errors import WorkerDiedError
from lodestone.indexing.tasks import SliceTask

MOST: Final = 2  # one lost node or worker is tolerated; after a second crash the run decides
_ANSWER_SECONDS: Final = 120.0


class Attempts(Protocol):
    """Counts attempts by key, and keeps the counts when workers crash. Picklable."""

    def begin(self, key: str) -> int:
        """Count one more attempt at a key, and return how many there were since the last `end`, including this one."""

    def end(self, key: str) -> None:
        """Reset the count of a key."""


class FolderAttempts:
    """Counts in files, for workers of one machine.

    Args:
        folder: Folder that all workers share.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, key: str) -> int:
        """Count one more attempt at a key, and return the count."""
        with self._file(key).open("ab") as file:
            file.write(b".")
        return self._file(key).stat().st_size

    def end(self, key: str) -> None:
        """Reset the count of a key."""
        self._file(key).unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        return self._folder / f"{key}.begun"


class _Counts:
    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def begin(self, key: str) -> int:
        self._counts[key] = self._counts.get(key, 0) + 1
        return self._counts[key]

    def end(self, key: str) -> None:
        self._counts.pop(key, None)


class ActorAttempts:
    """Counts in an actor, for workers of several nodes.

    Args:
        actor: Handle of the actor, from `ActorAttempts.start`.
    """

    def __init__(self, actor: Any) -> None:  # noqa: ANN401 - Ray creates its methods at run time
        self._actor = actor

    @classmethod
    def start(cls) -> ActorAttempts:
        """Start the actor on any node with room; it ends when its last handle is dropped."""
        import ray

        return cls(ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(_Counts).remote())

    def begin(self, key: str) -> int:
        """Count one more attempt at a key, and return the count."""
        import ray

        return int(ray.get(self._actor.begin.remote(key), timeout=_ANSWER_SECONDS))

    def end(self, key: str) -> None:
        """Reset the count of a key."""
        self._actor.end.remote(key)


def deadly(task: SliceTask) -> WorkerDiedError:
    """Return the error for a slice whose workers crashed as often as Ray may try; the run decides what to do."""
    first, last = (task.rows[0].uri, task.rows[-1].uri) if task.rows else ("", "")
    return WorkerDiedError(
        f"workers died {MOST} times at the slice of {len(task.rows)} pictures from {first!r} to {last!r}",
        hint="what is finished is kept; the slice is tried again with each picture on its own",
    )
