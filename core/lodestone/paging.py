"""How does a client go on behind the last row of a page? By a cursor: that row's place in the list's order, opaque outside.

A page that begins behind a row misses nothing and repeats nothing, whatever was added or removed meanwhile, and costs the same
however far down it is. A cursor names the list it belongs to; it says nothing that its page did not.
"""

from __future__ import annotations

import base64
import binascii
import json
from datetime import UTC, datetime
from typing import Any, Final

from lodestone.errors import InvalidRequestError

MAX_CURSOR_CHARS: Final = 8_192
_LARGEST: Final = 2**63 - 1  # what a database's integer holds


def encode_cursor(of: str, *place: str | int | datetime) -> str:
    """The cursor of the list `of` behind the row at `place`."""
    written = [one.astimezone(UTC).isoformat() if isinstance(one, datetime) else one for one in place]
    return base64.urlsafe_b64encode(json.dumps([of, *written], ensure_ascii=False).encode()).decode().rstrip("=")


def decode_cursor(of: str, cursor: str, *kinds: type) -> tuple[Any, ...]:
    """The place that a cursor of the list `of` names; one value for each of `kinds` (`str`, `int`, `datetime`).

    Raises:
        InvalidRequestError: it was made for another list, or by nobody.
    """
    try:
        if len(cursor) > MAX_CURSOR_CHARS:
            raise ValueError("too long")
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        name, *place = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True).decode())
        if name != of or len(place) != len(kinds):
            raise ValueError("of another list")
        return tuple(_read(one, kind) for one, kind in zip(place, kinds, strict=True))
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
