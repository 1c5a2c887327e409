"""Encoders of pictures for terminals: kitty's graphics protocol, sixels, iTerm2's inline images, and half blocks.

Each is a pure function of an RGB picture. The first three return an escape sequence that draws the picture at the cursor; half
blocks are lines of text.

Sources: kitty, "Terminal graphics protocol"; DEC, "VT330/VT340 Programmer Reference Manual", chapter 14; iTerm2, "Inline Images
Protocol".
"""

from __future__ import annotations

import base64
import io
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from PIL.Image import Image

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


_CHUNK: Final = 4096  # characters of base64 in one escape sequence of kitty
_SIXEL_COLOURS: Final = 255  # registers that every terminal with sixels has; one less than 256, as xterm counts
_BAND: Final = 6  # rows of pixels in one row of sixels
_RUNS: Final = re.compile(rb"(.)\1{3,}")
_UPPER_HALF: Final = "▀"


def kitty(image: Image, *, columns: int, rows: int) -> str:
    """Return the sequence that draws a picture by kitty's protocol, `columns` cells wide; the cursor stays.

    The terminal answers nothing (`q=2`). One side alone is given, so that the terminal keeps the ratio of the sides: where
    `columns` is 0, the picture is `rows` cells high.
    """
    data = base64.standard_b64encode(_png(image)).decode("ascii")
    chunks = [data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK)]
    side = f"c={columns}" if columns else f"r={rows}"
    first = f"a=T,f=100,q=2,C=1,{side},"
    parts = []
    for number, chunk in enumerate(chunks):
        more = int(number < len(chunks) - 1)
        parts.append(f"\x1b_G{first if number == 0 else 'q=2,'}m={more};{chunk}\x1b\\")
    return "".join(parts)


def iterm2(image: Image, *, columns: int, rows: int) -> str:
    """Return the sequence that draws a picture inline, as iTerm2 and WezTerm know it, fitted into a box of cells."""
    data = _png(image)
    size = f"width={columns};height={rows};preserveAspectRatio=1;doNotMoveCursor=1"
    return f"\x1b]1337;File=inline=1;size={len(data)};{size}:{base64.standard_b64encode(data).decode('ascii')}\x07"


def sixel(image: Image) -> str:
    """Return the sequence that draws a picture pixel by pixel, in at most 255 colours chosen for it."""
    import numpy as np

    indexed = image.quantize(_SIXEL_COLOURS)
    pixels = np.asarray(indexed, dtype=np.uint8)
    height, width = pixels.shape
    channels = indexed.getpalette() or []
    parts = [f'\x1bP0;1;0q"1;1;{width};{height}'.encode()]
    for number in range(int(pixels.max()) + 1):
        red, green, blue = (round(value * 100 / 255) for value in channels[3 * number : 3 * number + 3])
        parts.append(f"#{number};2;{red};{green};{blue}".encode())
    for top in range(0, height, _BAND):
        band = pixels[top : top + _BAND]
        bits = (1 << np.arange(len(band), dtype=np.uint8))[:, None]
        drawn = []
        for number in np.unique(band).tolist():
            column = ((band == number) * bits).sum(axis=0, dtype=np.uint8) + np.uint8(ord("?"))
            drawn.append(b"#%d%b" % (number, _RUNS.sub(_run, column.tobytes().rstrip(b"?"))))
        parts.append(b"$".join(drawn) + b"-")
    return b"".join([*parts, b"\x1b\\"]).decode("ascii")


def _run(match: re.Match[bytes]) -> bytes:
    return b"!%d%b" % (len(match[0]), match[1])


def half_blocks(image: Image, *, true_colour: bool) -> list[str]:
    """Return lines that show a picture with two pixels a character, one above the other.

    Args:
        image: The picture, one character wide a pixel; an odd last row has nothing below it.
        true_colour: Whether the terminal knows 24-bit colours; else the nearest of 256 are taken.
    """
    # bytes() of an RGB picture: three a pixel, row by row
    data, width = image.tobytes(), image.width
    rows = [[tuple(data[3 * (y * width + x) :][:3]) for x in range(width)] for y in range(image.height)]
    lines = []
    for top in range(0, len(rows), 2):
        below = rows[top + 1] if top + 1 < len(rows) else None
        line, style = [], ""
        for x, pixel in enumerate(rows[top]):
            wanted = f"38;{_colour(*pixel, true_colour=true_colour)}"
            wanted += ";49" if below is None else f";48;{_colour(*below[x], true_colour=true_colour)}"
            line.append(_UPPER_HALF if wanted == style else f"\x1b[{wanted}m{_UPPER_HALF}")
            style = wanted
        lines.append("".join(line) + "\x1b[0m")
    return lines


def _colour(red: int, green: int, blue: int, *, true_colour: bool) -> str:
    return f"2;{red};{green};{blue}" if true_colour else f"5;{nearest_colour(red, green, blue)}"


def _png(image: Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)  # it travels to a terminal of this machine, or one that ssh compresses for
    return buffer.getvalue()
