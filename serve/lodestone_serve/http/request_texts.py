"""Check of all texts in a JSON body before a route sees them: half a surrogate pair is no character, and is refused.

JSON can spell one (as an escape), Python keeps it, and whatever then writes, hashes or encodes the text fails. One check at the
door holds for every member of every message, names of members included. Texts in addresses cannot hold one: the server
replaces what is no UTF-8 there.
"""

from __future__ import annotations

import re
from typing import Any, Final

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError

_HALF: Final = re.compile("[\ud800-\udfff]")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def half_pair_in(value: object) -> tuple[tuple[str | int, ...], str] | None:
    """Return the place of the first text with half a surrogate pair, and which half; None where all texts are whole.

    Args:
        value: What a JSON document holds, nested to any depth.
    """
    left: list[tuple[tuple[str | int, ...], object]] = [((), value)]
    while left:
        place, current = left.pop()
        if isinstance(current, str):
            if found := _HALF.search(current):
                return place, f"U+{ord(found[0]):04X}"
        elif isinstance(current, dict):
            for name, inner in current.items():
                if found := _HALF.search(name):
                    return (*place, _HALF.sub(_REPLACEMENT, name)), f"U+{ord(found[0]):04X}"
                left.append(((*place, name), inner))
        elif isinstance(current, list):
            left.extend(((*place, number), inner) for number, inner in enumerate(current))
    return None


async def _check(request: Request) -> None:
    """Refuse the body if one of its texts is none.

    Raises:
        RequestValidationError: It names the member.
    """
    found = half_pair_in(await request.json()) if await request.body() else None
    if found is not None:
        place, half = found
        message = f"this text holds half a surrogate pair ({half}), which is no character"
        raise RequestValidationError([{"type": "string_unicode", "loc": ("body", *place), "msg": message}])


def needs_whole_texts() -> Any:  # noqa: ANN401 - FastAPI's own type of dependencies
    """Return the dependency of a route with a JSON body: it refuses texts with half a surrogate pair."""
    return Depends(_check)
