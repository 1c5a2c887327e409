"""Errors that are kept without the frames that raised them.

A traceback holds the frames that an error passed, and those hold the pixels of the picture that failed, as long as the error
lives. Each frame also holds the one that called it. So an error that a caller keeps in a variable is part of a cycle, and its
pixels stay until the garbage collector comes to old objects, which may be minutes later.
"""

from __future__ import annotations

from typing import TypeVar

ErrorT = TypeVar("ErrorT", bound=BaseException)


def without_frames(error: ErrorT) -> ErrorT:
    """Return the error after taking away its traceback and those of the errors behind it."""
    left: list[BaseException | None] = [error]
    seen: set[int] = set()
    while left:
        current = left.pop()
        if current is not None and id(current) not in seen:
            seen.add(id(current))
            current.__traceback__ = None
            left.extend((current.__cause__, current.__context__))
    return error
