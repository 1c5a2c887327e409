"""What is said at the end of somebody's sight? Of what lies beyond, what would be said if it were not there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from lodestone.access.visibility import Visibility
from lodestone.errors import ForbiddenError, NotFoundError, UnknownNameError

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class VisibilityLimits:
    """The end of a `visibility`."""

    visibility: Visibility

    async def own(self, found: Awaitable[_T], corpus: Callable[[_T], str | None], missing: NotFoundError) -> _T:
        """What was found, if it belongs to a corpus that is seen; else `missing`, and likewise if nothing was found."""
        try:
            value = await found
        except NotFoundError:
            raise missing from None
        name = corpus(value)
        if self.visibility.corpora is not None and (name is None or not self.visibility.sees(name)):
            raise missing
        return value

    @contextmanager
    def within(self, corpus: str) -> Iterator[None]:
        """What is done here is done with one corpus. One that is not seen is unknown; no message names one."""
        if not self.visibility.sees(corpus):
            raise self.visibility.unknown_corpus(corpus, self.visibility.corpora or ())
        try:
            yield
        except UnknownNameError as error:
            if error.details.get("kind") != "corpus":
                raise
            raise self.visibility.unknown_corpus(corpus, error.details.get("known", ())) from None

    def shown(self, found: _T, discreet: Callable[[_T], _T]) -> _T:
        """All of what was found to those who see everybody's queries, else what `discreet` leaves of it."""
        return found if self.visibility.all_queries else discreet(found)

    def whole(self, what: str) -> ForbiddenError:
        """What is said to those who do not see all of a home that this works on."""
        return ForbiddenError(
            f"this works on the whole home ({what}), and the key does not see all of it",
            hint="use a key of all corpora with the scope it needs, or the lodestone command on the service's machine",
        )
