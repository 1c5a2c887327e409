"""What a caller is told about things that they do not see: exactly what is said of things that do not exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from lodestone.access.caller import Caller
from lodestone.access.visibility import EVERYTHING
from lodestone.errors import ForbiddenError, NotFoundError, UnknownNameError

_T = TypeVar("_T")


def own(caller: Caller, look: Callable[[], _T], corpus: Callable[[_T], str | None], missing: NotFoundError) -> _T:
    """Return what `look` finds, if the caller sees the corpus that it belongs to.

    Args:
        caller: Whoever asks.
        look: Finds the thing; blocking.
        corpus: Name of the corpus that a thing belongs to; None for none.
        missing: Error for a thing that is unknown or not seen, the same for both.

    Raises:
        NotFoundError: `missing`; the error of `look` for a caller who sees everything.
    """
    if caller.visibility == EVERYTHING:
        return look()
    try:
        value = look()
    except NotFoundError:
        raise missing from None
    name = corpus(value)
    if caller.visibility.corpora is not None and (name is None or not caller.visibility.sees(name)):
        raise missing
    return value


@contextmanager
def within(caller: Caller, corpus: str) -> Iterator[None]:
    """Run the block, which works on one corpus. A corpus that is not seen is unknown, and no message names it.

    Raises:
        UnknownNameError: the corpus is unknown or not seen; lists those that are seen.
    """
    visibility = caller.visibility
    if not visibility.sees(corpus):
        raise visibility.unknown_corpus(corpus, visibility.corpora or ())
    try:
        yield
    except UnknownNameError as error:
        if visibility == EVERYTHING or error.details.get("kind") != "corpus":
            raise
        raise visibility.unknown_corpus(corpus, error.details.get("known", ())) from None


def shown(caller: Caller, answer: _T, redact: Callable[[_T], _T]) -> _T:
    """Return the whole answer to those who see everybody's queries, and what `redact` leaves of it to all others."""
    return answer if caller.visibility.all_queries else redact(answer)


def need_all_corpora(caller: Caller, what: str) -> None:
    """Return if the caller sees every corpus.

    Raises:
        ForbiddenError: they do not; `what` names the work.
    """
    if caller.visibility.corpora is not None:
        raise _whole(what)


def need_all_queries(caller: Caller, what: str) -> None:
    """Return if the caller sees everybody's queries.

    Raises:
        ForbiddenError: they do not; `what` names the work.
    """
    if not caller.visibility.all_queries:
        raise _whole(what)


def need_whole_home(caller: Caller, what: str) -> None:
    """Return if the caller sees every corpus and everybody's queries.

    Raises:
        ForbiddenError: they do not; `what` names the work.
    """
    if not caller.sees_whole_home:
        raise _whole(what)


def _whole(what: str) -> ForbiddenError:
    return ForbiddenError(
        f"this works on the whole home ({what}), and the key does not see all of it",
        hint="use a key of all corpora with the scope it needs, or the lodestone command on the service's machine",
    )
