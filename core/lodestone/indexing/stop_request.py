"""Request to end a run in order: pictures that are partly through the models are finished and kept first.

What a worker holds in memory is lost when a run ends at once: all pictures of the slices that it had begun. So the first Ctrl-C
lets these slices come to their end while no further one is begun. Everywhere else a run loses nothing by ending at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StopRequest:
    """Request from a signal handler to the run in the same thread.

    `ask` may interrupt the run between any two of its steps, so both sides only read and set plain values.
    """

    def __init__(self) -> None:
        self._under_way: Callable[[], int] | None = None
        self._ending: BaseException | None = None

    @property
    def is_asked(self) -> bool:
        """Return whether the run was asked to end."""
        return self._ending is not None

    def ask(self, ending: BaseException) -> bool:
        """Ask the run to finish what is under way and then to raise `ending`.

        Returns:
            False if nothing is under way that an end would lose, or if the run was asked before. The caller then ends it.
        """
        if self._under_way is None or self._ending is not None or not self._under_way():
            return False
        self._ending = ending
        return True

    @contextmanager
    def honoured(self, under_way: Callable[[], int]) -> Iterator[None]:
        """Let `ask` take effect on the work inside, and raise what it was given when the work has ended.

        Args:
            under_way: Called by `ask`, in a signal handler. It returns how many pictures would be lost by ending at once, and
                remembers which they are: the work waits for these alone.

        Raises:
            BaseException: what `ask` was given.
        """
        self._under_way = under_way
        try:
            yield
        finally:
            self._under_way = None
        if self._ending is not None:
            ending, self._ending = self._ending, None
            raise ending
