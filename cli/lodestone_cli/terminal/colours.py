"""Colours of terminals with 256 colours: the cube of 6 x 6 x 6 and the 24 greys of xterm."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

RGB = tuple[int, int, int]

_LEVELS: Final = (0, 95, 135, 175, 215, 255)  # of each channel of the cube
_CUBE: Final = 16  # the colours before it are the user's own
_GREYS: Final = 232
_GREY_COUNT: Final = 24


@lru_cache(maxsize=1 << 14)
def nearest_colour(red: int, green: int, blue: int) -> int:
    """Return the number, 16 to 255, of the colour that is nearest to these channels (0 to 255)."""
    steps = [min(range(6), key=lambda step: abs(_LEVELS[step] - value)) for value in (red, green, blue)]
    cube = _CUBE + 36 * steps[0] + 6 * steps[1] + steps[2]
    grey = _GREYS + min(max(round(((red + green + blue) / 3 - 8) / 10), 0), _GREY_COUNT - 1)
    return min((cube, grey), key=lambda number: _distance(colour_of(number), (red, green, blue)))


def colour_of(number: int) -> RGB:
    """Return red, green and blue (0 to 255) of a colour, 16 to 255."""
    if number >= _GREYS:
        level = 8 + 10 * (number - _GREYS)
        return level, level, level
    place = number - _CUBE
    return _LEVELS[place // 36], _LEVELS[place // 6 % 6], _LEVELS[place % 6]


def _distance(one: RGB, other: RGB) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
