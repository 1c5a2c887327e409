"""Opaque cursors for paging: each names the place of a page's last row in the order of its list.

A page that starts after a row skips nothing and repeats nothing, whatever was added or removed meanwhile, and costs the same
however far down the list it is. A cursor names the list it belongs to, and reveals nothing that its page did not.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from lodestone.errors import InvalidRequestError

MAX_CURSOR_CHARS: Final = 8_192
_LARGEST: Final = 2**63 - 1  # largest integer of a database


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The rows of a list that are asked for: `limit` of them, behind `offset` rows or behind the row of a `cursor`."""

    limit: int
    offset: int = 0
    cursor: str | None = None


def encode_cursor(of: str, *place: str | int | datetime) -> str:
    """Return the cursor that continues the list `of` after the row at `place`."""
    written = [value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value for value in place]
    return base64.urlsafe_b64encode(json.dumps([of, *written], ensure_ascii=False).encode()).decode().rstrip("=")


def decode_cursor(of: str, cursor: str, *kinds: type) -> tuple[Any, ...]:
    """Return the place in a cursor of the list `of`, with one value for each of `kinds` (`str`, `int`, `datetime`).

    Raises:
        InvalidRequestError: The cursor belongs to another list, or is not a cursor.
    """
    try:
        if len(cursor) > MAX_CURSOR_CHARS:
            raise ValueError("too long")
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        name, *place = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True).decode())
        if name != of or len(place) != len(kinds):
            raise ValueError("of another list")
        return tuple(_read(value, kind) for value, kind in zip(place, kinds, strict=True))
    except (ValueError, TypeError, OverflowError, RecursionError, binascii.Error) as error:
        raise InvalidRequestError(
            f"{cursor[:40]!r} is no cursor of this list",
            hint="take `next_cursor` of a page of the same list, or leave it out to begin at the start",
        ) from error


def _read(value: object, kind: type) -> str | int | datetime:
    if kind is int and isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST:
        return value
    if kind is not int and isinstance(value, str) and "\0" not in value:
        value.encode()  # a lone surrogate is no text
        if kind is str:
            return value
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    raise ValueError("not a place")
