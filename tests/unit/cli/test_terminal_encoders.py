"""Tests of pictures encoded for terminals: decoded again, they are the pictures that went in."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image
from tests.support.terminal import decode_kitty, decode_sixel

from lodestone_cli.terminal.encoders import colour_of, half_blocks, iterm2, kitty, nearest_colour, sixel

PIXEL = re.compile(r"\x1b\[38;([\d;]+?);([34]9|48;[\d;]+)m▀|▀")


def photo(width: int, height: int) -> Image.Image:
    """A picture with gradients and noise, as photos have."""
    across, down = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    noise = np.random.default_rng(7).normal(0, 6, (height, width, 3))
    return Image.fromarray((np.stack([across, down, 255 - across], axis=2) + noise).clip(0, 255).astype(np.uint8))


def difference(one: Image.Image, other: Image.Image) -> float:
    assert one.size == other.size
    return float(np.abs(np.asarray(one, dtype=float) - np.asarray(other, dtype=float)).mean())


@pytest.mark.parametrize("size", [(240, 180), (7, 3), (1, 1)])
def test_kitty_gets_the_exact_picture_in_chunks_and_is_told_one_side(size: tuple[int, int]) -> None:
    image = photo(*size)

    decoded, keys = decode_kitty(kitty(image, columns=24, rows=9))

    assert difference(decoded, image) == 0
    assert (keys["a"], keys["f"], keys["q"], keys["C"], keys["c"]) == ("T", "100", "2", "1", "24")
    assert "r" not in keys
    assert decode_kitty(kitty(image, columns=0, rows=9))[1]["r"] == "9"


def test_iterm2_gets_the_exact_picture_and_its_box() -> None:
    image = photo(60, 40)

    match = re.fullmatch(r"\x1b\]1337;File=([^:]*):(.*)\x07", iterm2(image, columns=12, rows=4))

    assert match is not None
    data = base64.standard_b64decode(match[2])
    assert difference(Image.open(io.BytesIO(data)), image) == 0
    assert match[1].split(";") == [
        "inline=1", f"size={len(data)}", "width=12", "height=4", "preserveAspectRatio=1", "doNotMoveCursor=1",
    ]  # fmt: skip


@pytest.mark.parametrize("size", [(240, 180), (61, 47), (1, 1), (5, 6), (3, 13)])
def test_sixels_are_the_picture_in_few_colours(size: tuple[int, int]) -> None:
    image = photo(*size)

    assert difference(decode_sixel(sixel(image)), image) < 8


def test_sixels_of_plain_areas_are_short_and_use_registers_that_terminals_have() -> None:
    encoded = sixel(Image.new("RGB", (200, 60), (10, 200, 30)))

    assert len(encoded) < 200
    assert difference(decode_sixel(encoded), Image.new("RGB", (200, 60), (10, 200, 30))) < 2
    assert max(int(number) for number in re.findall(r"#(\d+);2;", sixel(photo(99, 99)))) < 255


def _decode_blocks(lines: list[str], *, true_colour: bool) -> list[list[tuple[tuple[int, ...], tuple[int, ...] | None]]]:
    def colour(text: str) -> tuple[int, ...]:
        kind, *numbers = map(int, text.split(";"))
        assert kind == (2 if true_colour else 5)
        return tuple(numbers) if true_colour else colour_of(numbers[0])

    rows = []
    for line in lines:
        assert line.endswith("\x1b[0m")
        row, now = [], ((0, 0, 0), None)
        for match in PIXEL.finditer(line):
            if match[1]:
                now = (colour(match[1]), None if match[2] == "49" else colour(match[2].removeprefix("48;")))  # type: ignore[assignment]
            row.append(now)
        rows.append(row)
    return rows  # type: ignore[return-value]


def test_half_blocks_hold_each_pixel_and_an_odd_row_has_nothing_below() -> None:
    image = photo(9, 5)

    rows = _decode_blocks(half_blocks(image, true_colour=True), true_colour=True)

    assert [len(row) for row in rows] == [9, 9, 9]
    for y, row in enumerate(rows):
        for x, (above, below) in enumerate(row):
            assert above == image.getpixel((x, 2 * y))
            assert below == (image.getpixel((x, 2 * y + 1)) if 2 * y + 1 < 5 else None)


def test_half_blocks_with_256_colours_take_the_nearest() -> None:
    image = photo(20, 10)

    rows = _decode_blocks(half_blocks(image, true_colour=False), true_colour=False)

    for y, row in enumerate(rows):
        for x, (above, _) in enumerate(row):
            off = [abs(a - b) for a, b in zip(above, image.getpixel((x, 2 * y)), strict=True)]
            assert max(off) <= 48  # half the widest step between two levels of the cube


def test_each_of_the_256_colours_is_its_own_nearest() -> None:
    for number in range(16, 256):
        assert colour_of(nearest_colour(*colour_of(number))) == colour_of(number)
    assert nearest_colour(255, 0, 0) == 196
    assert nearest_colour(8, 8, 8) == 232
