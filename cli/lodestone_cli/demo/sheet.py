"""Contact sheet of the demonstration: one row for each question, the best five before and after training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont, ImageOps

_CELL, _GAP, _TEXT, _HEAD = 88, 6, 330, 40
_RIGHT, _WRONG, _INK, _PAPER = "#178a3a", "#d8d8d8", "#1c1c1c", "#ffffff"


@dataclass(frozen=True, slots=True)
class SheetRow:
    """One question with the best pictures before and after training, each with whether it is right."""

    words: str
    before: Sequence[tuple[Path, bool]]
    after: Sequence[tuple[Path, bool]]


def write_sheet(rows: Sequence[SheetRow], path: Path, *, top: int = 5) -> None:
    """Draw the sheet as PNG. Right answers have a green frame."""
    side = top * (_CELL + _GAP)
    width = _TEXT + 2 * side + 4 * _GAP
    sheet = Image.new("RGB", (width, _HEAD + len(rows) * (_CELL + _GAP) + _GAP), _PAPER)
    draw = ImageDraw.Draw(sheet)
    font, small = ImageFont.load_default(17), ImageFont.load_default(15)
    columns = (_TEXT, _TEXT + side + 3 * _GAP)
    for left, title in zip(columns, ("before training", "after training on the other half's names"), strict=True):
        draw.text((left, 12), title, font=font, fill=_INK)
    for number, row in enumerate(rows):
        y = _HEAD + number * (_CELL + _GAP)
        solved = any(right for _, right in row.after[:top])
        draw.text((_GAP * 2, y + _CELL // 2 - 10), row.words, font=small, fill=_RIGHT if solved else _INK)
        for left, answers in zip(columns, (row.before, row.after), strict=True):
            for place, (picture, right) in enumerate(answers[:top]):
                x = left + place * (_CELL + _GAP)
                sheet.paste(_cell(picture), (x, y))
                draw.rectangle(
                    (x, y, x + _CELL - 1, y + _CELL - 1), outline=_RIGHT if right else _WRONG, width=3 if right else 1
                )
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path, format="PNG")


def _cell(picture: Path) -> Image.Image:
    with Image.open(picture) as opened:
        return ImageOps.pad(opened.convert("RGB"), (_CELL, _CELL), color=_PAPER)
