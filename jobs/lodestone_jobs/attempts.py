"""How often was a slice begun? Ray starts dead workers again for ever, and a picture may kill each of them: one must count.

On one machine a file a slice does; on a cluster an actor beside the driver, which lives as long as the driver does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Protocol

from lodestone.errors import WorkerDiedError
from lodestone.indexing.tasks import SliceTask

MOST: Final = 2  # a node or a worker may be lost once without anybody noticing; what dies twice is the run's business
_ANSWER_SECONDS: Final = 120.0


class Attempts(Protocol):
    """Counts, across the deaths of whoever counts in it. Picklable."""

    def begin(self, key: str) -> int:
        """How often this key was begun since it last ended, with this time."""

    def end(self, key: str) -> None:
        """Count from the start again."""


class FolderAttempts:
    """Counts in files, for workers of one machine.

    Args:
        folder: That they all share.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, key: str) -> int:
        """See `Attempts.begin`."""
        with self._file(key).open("ab") as file:
            file.write(b".")
        return self._file(key).stat().st_size

    def end(self, key: str) -> None:
        """See `Attempts.end`."""
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
        actor: From `ActorAttempts.start`.
    """

    def __init__(self, actor: Any) -> None:  # noqa: ANN401 - Ray makes its methods as it goes
        self._actor = actor

    @classmethod
    def start(cls) -> ActorAttempts:
        """Start the actor, where there is room; it ends with its handles."""
        import ray

        return cls(ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(_Counts).remote())

    def begin(self, key: str) -> int:
        """See `Attempts.begin`."""
        import ray

        return int(ray.get(self._actor.begin.remote(key), timeout=_ANSWER_SECONDS))

    def end(self, key: str) -> None:
        """See `Attempts.end`."""
        self._actor.end.remote(key)


def deadly(task: SliceTask) -> WorkerDiedError:
    """Its workers died as often as Ray may try: the run decides what is done about it."""
    first, last = (task.rows[0].uri, task.rows[-1].uri) if task.rows else ("", "")
    return WorkerDiedError(
        f"workers died {MOST} times at the slice of {len(task.rows)} pictures from {first!r} to {last!r}",
        hint="what is finished is kept; the slice is tried again with each picture on its own",
    )
