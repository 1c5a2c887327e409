"""Contract of what fuses the lists of a query: this process, or an adapter around another one.

The searcher does not know which. Explanations are made of the lists themselves, which stay where the query is answered, so
they are the same either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lodestone.retrieval.fusion import FusedList, RankedList, fuse_in_tiers


class Fuser(Protocol):
    """Fuses ranked lists, in this process or elsewhere."""

    async def fuse(
        self,
        name: str,
        found: Sequence[RankedList],
        completed: Sequence[RankedList],
        *,
        depths: Sequence[int],
        deadline: float | None = None,
    ) -> FusedList:
        """Return what `fuse_in_tiers` returns for these arguments, to the bit.

        Args:
            name: Key of `FUSIONS`, or a former name.
            found: The lists as the searches gave them.
            completed: The same lists, with every candidate's score where the fusion reads scores.
            depths: Ascending; the last one is the depth of the search.
            deadline: Absolute, of the query.
        """


class LocalFuser:
    """A `Fuser` that fuses in this process, at once: it takes less time than a thread's turn."""

    async def fuse(
        self,
        name: str,
        found: Sequence[RankedList],
        completed: Sequence[RankedList],
        *,
        depths: Sequence[int],
        deadline: float | None = None,  # noqa: ARG002  (a contract)
    ) -> FusedList:
        """Return the fused list; see `fuse_in_tiers`."""
        return fuse_in_tiers(name, found, completed, depths=depths)
