"""The grid of an answer's pictures on a terminal: rank and name under each, as many as fit below what was printed.

Each row of pictures is written at once: first its lines of text (half blocks, placeholders, or room for graphics), then its
graphics, with the cursor moved back up, then the captions. So nothing scrolls between two pictures of a row, and graphics of
any protocol stand beside each other.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lodestone.errors import LodestoneError
from lodestone_cli.file_names import shown_name
from lodestone_cli.options import Pictures
from lodestone_cli.terminal import encoders

if TYPE_CHECKING:
    from PIL.Image import Image
    from rich.console import Console
    from rich.text import Text

    from lodestone_cli.terminal.capabilities import Screen
    from lodestone_schemas.api import Hit

ReadThumbnail = Callable[[str], bytes]
"""Function that returns the thumbnail, a picture file, of an image id."""

_GAP: Final = 2  # columns between two pictures
_NARROWEST: Final = 8  # columns of a picture
_USUAL_WIDTHS: Final = {Pictures.BLOCKS: 32}  # columns of a picture; half blocks need more to be recognised
_USUAL_WIDTH: Final = 24
_SHAPE: Final = 0.75  # height of the box of a picture, as a part of its width
_CAPTION_LINES: Final = 1
_BESIDE: Final = 2  # lines of the terminal that the captions leave free
_LOWEST: Final = 5  # lines of a picture below which nobody recognises it
_SHARE: Final = 3  # the part of a screen that pictures get where the list above them fills it: one in so many
_BLOCK_CELL: Final = (1, 2)  # a character of half blocks holds one pixel above another
_MOST_PIXELS: Final = 1 << 24  # of a thumbnail: whoever sends more sends no thumbnail
_FORMATS: Final = ("JPEG", "PNG", "WEBP")
_NOTHING: Final = "no picture"


@dataclass(frozen=True, slots=True)
class PictureGrid:
    """Draws the pictures of an answer in a grid.

    Attributes:
        screen: How and where they are drawn.
        thumbnail: Reads thumbnails.
        columns: Pictures in a row at most; None for as many as fit.
    """

    screen: Screen
    thumbnail: ReadThumbnail
    columns: int | None = None

    def print(self, console: Console, hits: Sequence[Hit], paths: Mapping[str, str], *, room: int | None = None) -> int:
        """Draw the pictures of hits row by row, in their order, and return how many were drawn.

        Args:
            console: Where they are drawn.
            hits: Pictures of an answer.
            paths: Path on this machine by image id, which the name becomes a link to.
            room: Lines of the screen that are left for them: as many pictures as fit are drawn, at least one row. None for all.
                Pictures in rows of `columns` are all drawn.
        """
        per_row, width, height = self._layout(None if self.columns is not None else room)
        if room is not None and self.columns is None:
            hits = hits[: per_row * max(1, (room + 1) // (height + _CAPTION_LINES + 1))]
        for start in range(0, len(hits), per_row):
            row = hits[start : start + per_row]
            tiles = [self._tile(hit.image_id, width, height) for hit in row]
            _write(console, _drawn(tiles, width))
            console.print(_joined([_caption(hit, paths.get(hit.image_id), width=width) for hit in row]))
            if start + per_row < len(hits):
                console.print()
        return len(hits)

    def _layout(self, room: int | None) -> tuple[int, int, int]:
        """Return how many pictures stand in a row, and the width and the height of the box of each, in characters."""
        cell = _BLOCK_CELL if self.screen.pictures is Pictures.BLOCKS else self.screen.cell
        across = self.screen.columns
        usual = _USUAL_WIDTHS.get(self.screen.pictures, _USUAL_WIDTH)
        most = max(1, (across + _GAP) // (_NARROWEST + _GAP))
        per_row = max(1, round((across + _GAP) / (usual + _GAP))) if self.columns is None else self.columns
        free = max(1, self.screen.lines - _CAPTION_LINES - _BESIDE)
        if room is not None:
            least = min(free, max(_LOWEST, self.screen.lines // _SHARE - _CAPTION_LINES))
            free = min(free, max(room - _CAPTION_LINES, _LOWEST if room > _LOWEST else least))
            filled = max(_NARROWEST, math.ceil(free * cell[1] / (_SHAPE * cell[0])))  # width of a box of this height
            per_row = max(per_row, (across + _GAP) // (filled + _GAP))
        per_row = min(per_row, most)
        width = max(1, (across - (per_row - 1) * _GAP) // per_row)
        return per_row, width, min(free, max(1, round(width * cell[0] * _SHAPE / cell[1])))

    def _tile(self, image_id: str, width: int, most_rows: int) -> _Tile:
        cell = _BLOCK_CELL if self.screen.pictures is Pictures.BLOCKS else self.screen.cell
        try:
            image = _read(self.thumbnail(image_id))
        except LodestoneError:  # gone, not seen any more, or the service does not answer: the list says which are gone
            image = None
        return _placeholder(width, most_rows) if image is None else _tile(image, self.screen, width, most_rows, cell)


@dataclass(frozen=True, slots=True)
class _Tile:
    """One drawn picture: lines of text that take its place, and the graphics over them, if any."""

    width: int
    lines: list[str]
    graphics: str = ""


def _read(data: bytes) -> Image | None:
    """Return the RGB picture of a thumbnail; None for one that is damaged or is none."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as opened:
            if opened.width * opened.height > _MOST_PIXELS:
                return None
            return opened.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None


def _tile(image: Image, screen: Screen, width: int, most_rows: int, cell: tuple[int, int]) -> _Tile:
    from PIL.Image import Resampling

    across, down = width * cell[0], most_rows * cell[1]
    scale = min(across / image.width, down / image.height)
    size = (min(max(round(image.width * scale), 1), across), min(max(round(image.height * scale), 1), down))
    exact = screen.pictures in {Pictures.BLOCKS, Pictures.SIXEL}  # the others' terminals enlarge by themselves
    small = image.resize(size, Resampling.LANCZOS) if exact or scale < 1 else image
    columns, rows = math.ceil(size[0] / cell[0]), math.ceil(size[1] / cell[1])
    if screen.pictures is Pictures.BLOCKS:
        return _Tile(columns, encoders.half_blocks(small, true_colour=screen.true_colour))
    room = [" " * columns] * rows
    if screen.pictures is Pictures.SIXEL:
        return _Tile(columns, room, encoders.sixel(small))
    if screen.pictures is Pictures.ITERM2:
        return _Tile(columns, room, encoders.iterm2(small, columns=columns, rows=rows))
    is_wide = across * image.height <= down * image.width
    return _Tile(columns, room, encoders.kitty(small, columns=columns if is_wide else 0, rows=rows))


def _placeholder(width: int, rows: int) -> _Tile:
    inside = width - 2
    if rows < 3 or inside < len(_NOTHING):
        return _Tile(width, [_NOTHING[:width].ljust(width), *[" " * width] * (rows - 1)])
    middle = [f"│{' ' * inside}│"] * (rows - 2)
    middle[len(middle) // 2] = f"│{_NOTHING:^{inside}}│"
    return _Tile(width, [f"╭{'─' * inside}╮", *middle, f"╰{'─' * inside}╯"])


def _drawn(tiles: Sequence[_Tile], width: int) -> str:
    """Return what draws a row of pictures and leaves the cursor at the beginning of the line below it."""
    rows = max(len(tile.lines) for tile in tiles)
    lines = []
    for number in range(rows):
        parts = [tile.lines[number] + " " * (width - tile.width) if number < len(tile.lines) else " " * width for tile in tiles]
        lines.append((" " * _GAP).join(parts).rstrip(" ") + "\n")
    return "".join([*lines, *_overlaid(tiles, width, rows)])


def _overlaid(tiles: Sequence[_Tile], width: int, rows: int) -> Iterator[str]:
    if not any(tile.graphics for tile in tiles):
        return
    yield f"\x1b[{rows}A"
    for number, tile in enumerate(tiles):
        if tile.graphics:
            right = number * (width + _GAP)
            yield "\r" + (f"\x1b[{right}C" if right else "") + f"\x1b7{tile.graphics}\x1b8"
    yield f"\r\x1b[{rows}B"


def _write(console: Console, text: str) -> None:
    """Write sequences as they are; one that is interrupted is ended, so that what follows it is text again."""
    try:
        console.file.write(text)
        console.file.flush()
    except KeyboardInterrupt:
        console.file.write("\x1b\\\x1b[0m\n")
        raise


def _caption(hit: Hit, path: str | None, *, width: int) -> Text:
    """Return the line under a picture: its rank and its name, which is a link to the file."""
    from rich.style import Style
    from rich.text import Text

    url = Path(path).as_uri() if path is not None and Path(path).is_absolute() else None
    line = Text(f"{hit.rank}  ", style="bold")
    line.append(shown_name(Path(path or hit.uri).name or hit.uri), style=Style(bold=False, link=url))
    line.truncate(width, overflow="ellipsis", pad=True)
    return line


def _joined(texts: Sequence[Text]) -> Text:
    from rich.text import Text

    row = Text(" " * _GAP).join(texts)
    row.rstrip()
    return row
