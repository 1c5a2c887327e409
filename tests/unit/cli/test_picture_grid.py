"""Tests of the grid of an answer's pictures: where each stands, what is under it, and what is there without a thumbnail."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console
from tests.support.terminal import Screen as Rendered
from tests.support.terminal import decode_kitty, decode_sixel, screen_of
from tests.unit.cli.test_answer import FOLDER, answer, hit

from lodestone.errors import NotFoundError
from lodestone_cli.answer import print_answer
from lodestone_cli.options import Pictures
from lodestone_cli.terminal.capabilities import Screen
from lodestone_cli.terminal.grid import PictureGrid
from lodestone_schemas.api import Hit, SearchResponse

CELL = (10, 20)


def jpeg(colour: tuple[int, int, int] = (200, 30, 30), size: tuple[int, int] = (320, 240)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "JPEG")
    return buffer.getvalue()


def shown(
    *hits: Hit,
    pictures: Pictures = Pictures.KITTY,
    width: int = 80,
    lines: int = 50,
    columns: int | None = None,
    thumbnail: object = None,
    paths: dict[str, str] | None = None,
    room: int | None = None,
) -> Rendered:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system="truecolor", soft_wrap=True, highlight=False)
    grid = PictureGrid(Screen(pictures, width, lines, CELL), thumbnail or (lambda _: jpeg()), columns)  # type: ignore[arg-type]
    grid.print(console, hits, paths or {}, room=room)
    return screen_of(out.getvalue(), width=width)


@pytest.mark.parametrize("pictures", [Pictures.KITTY, Pictures.SIXEL, Pictures.ITERM2])
def test_graphics_stand_in_a_grid_with_rank_and_name_under_each(pictures: Pictures) -> None:
    screen = shown(*map(hit, range(1, 6)), pictures=pictures, columns=3)

    places = [(line, column) for line, column, _ in screen.graphics]
    assert places == [(0, 0), (0, 27), (0, 54), (11, 0), (11, 27)]
    assert [(line, text) for line, text in enumerate(screen.lines) if text] == [
        (9, "1  IMG_1.jpg               2  IMG_2.jpg               3  IMG_3.jpg"),
        (20, "4  IMG_4.jpg               5  IMG_5.jpg"),
    ]


@pytest.mark.parametrize("size", [(320, 240), (100, 320), (320, 20), (3, 320), (16, 16)])
def test_graphics_keep_their_shape_and_stay_in_their_box(size: tuple[int, int]) -> None:
    box = (25 * CELL[0], 9 * CELL[1])

    sixels = decode_sixel(shown(hit(1), pictures=Pictures.SIXEL, columns=3, thumbnail=lambda _: jpeg(size=size)).graphics[0][2])
    assert sixels.width <= box[0]
    assert sixels.height <= box[1]
    assert sixels.width == box[0] or sixels.height == box[1]
    assert abs(sixels.width - sixels.height * size[0] / size[1]) <= max(1, size[0] / size[1])

    screen = shown(hit(1), columns=3, thumbnail=lambda _: jpeg(size=size))
    image, keys = decode_kitty(screen.graphics[0][2])
    assert image.width <= size[0]  # the terminal enlarges
    wide = size[0] / size[1] >= box[0] / box[1]
    assert ("c" in keys, "r" in keys) == (wide, not wide)


def test_half_blocks_stand_beside_each_other() -> None:
    screen = shown(hit(1), hit(2), pictures=Pictures.BLOCKS, width=50, columns=2)

    assert not screen.graphics
    assert screen.lines[0] == "▀" * 24 + "  " + "▀" * 24
    assert screen.lines[9:] == ["1  IMG_1.jpg              2  IMG_2.jpg"]


def test_a_damaged_a_missing_and_a_huge_thumbnail_leave_a_placeholder_and_the_others_are_shown() -> None:
    def thumbnail(image_id: str) -> bytes:
        if image_id == "id-1":
            raise NotFoundError("gone")
        return {"id-2": b"no picture at all", "id-3": jpeg()[:300], "id-4": jpeg(size=(5000, 5000)), "id-5": b""}.get(
            image_id, jpeg()
        )

    for pictures in (Pictures.SIXEL, Pictures.BLOCKS):
        screen = shown(*map(hit, range(1, 7)), pictures=pictures, width=110, columns=6, thumbnail=thumbnail)
        assert screen.lines[0].startswith("  ".join(["╭" + "─" * 14 + "╮"] * 5))
        assert sum(line.count("no picture") for line in screen.lines) == 5
        assert [column for _, column, _ in screen.graphics] == ([90] if pictures is Pictures.SIXEL else [])
        assert screen.lines[-1].count(".jpg") == 6


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("evil\x1b[31m\n.jpg", r"$'evil\x1b[31m\n.jpg'"),
        ("\x9b2J\u202egpj.jpg", r"$'\xc2\x9b2J\xe2\x80\…"),
        ("a\udce9.jpg", r"$'a\xe9.jpg'"),
        ("写真写真写真写真写真写真写真写真.jpg", "写真写真写真写真写真 …"),
    ],
)
def test_names_are_shown_harmlessly_and_cut_to_their_column(name: str, text: str) -> None:
    screen = shown(hit(1), hit(2), columns=3, paths={"id-1": f"/p/{name}", "id-2": "/p/second.jpg"})

    first, second = screen.lines[-1].removeprefix("1  ").split("  ")[0].strip(), screen.lines[-1].rstrip().rpartition(" ")[2]
    assert (first, second) == (text, "second.jpg")


def test_names_are_links_to_the_files() -> None:
    assert shown(hit(1), paths={"id-1": "/p/a photo.jpg"}).links == ["file:///p/a%20photo.jpg"]


@pytest.mark.parametrize(
    ("width", "lines", "columns", "per_row"),
    [(80, 50, None, 3), (20, 50, 9, 2), (5, 50, None, 1), (80, 5, 2, 2), (200, 50, None, 8)],
)
def test_the_grid_fits_any_terminal(width: int, lines: int, columns: int | None, per_row: int) -> None:
    screen = shown(*map(hit, range(1, 11)), width=width, lines=lines, columns=columns)

    assert sum(line == 0 for line, _, _ in screen.graphics) == per_row
    height = next((line for line, _, _ in screen.graphics if line), 0)
    assert height <= max(lines, 4)


@pytest.mark.parametrize("pictures", [Pictures.KITTY, Pictures.BLOCKS])
@pytest.mark.parametrize("room", [8, 9, 12, 20, 40])
def test_as_many_pictures_are_drawn_as_the_room_on_the_screen_has_lines_for(pictures: Pictures, room: int) -> None:
    screen = shown(*map(hit, range(1, 11)), pictures=pictures, lines=60, room=room)

    drawn = sum(line.count("IMG_") for line in screen.lines)
    assert room - 11 < len(screen.lines) <= room  # nothing scrolls away, and no further row would fit
    assert 2 <= drawn <= 10
    assert screen.lines[-1].rstrip().endswith(f"IMG_{drawn}.jpg")


def test_a_screen_that_the_list_fills_still_gets_one_row_of_pictures_that_can_be_recognised() -> None:
    for room in (-30, 0, 3):
        screen = shown(*map(hit, range(1, 11)), lines=24, room=room)
        assert [line for line, _, _ in screen.graphics] == [0] * len(screen.graphics)
        assert 6 <= len(screen.lines) <= 9


def test_columns_that_were_asked_for_show_all_pictures_whatever_the_room() -> None:
    screen = shown(*map(hit, range(1, 11)), lines=24, room=3, columns=2)

    assert len(screen.graphics) == 10


def test_an_answer_with_pictures_fits_a_small_terminal_paths_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "2024").mkdir()
    monkeypatch.chdir(tmp_path)
    paths = {f"id-{rank}": str(tmp_path / "2024" / f"IMG_{rank}.jpg") for rank in range(1, 11)}
    for warnings in (
        [],
        ["no picture of this corpus has a caption, so words were compared with pictures alone and nothing else"],
    ):
        found = answer(*(hit(rank, missing=rank == 2, copies=rank) for rank in range(1, 11)))
        screen = _answered(found.model_copy(update={"warnings": warnings}), paths, lines=24)

        first = next(number for number, line in enumerate(screen.lines) if line.startswith(" 1  1.000  2024/IMG_1.jpg"))
        assert first == len(warnings)
        assert all(f"2024/IMG_{rank}.jpg" in screen.lines[first + rank - 1] for rank in range(1, 11))
        assert "(the file is gone)" in screen.lines[first + 1]
        assert screen.graphics[0][0] == first + 11
        assert sum(math.ceil(len(line) / 80) or 1 for line in screen.lines) == 23  # the prompt stands on the last one
        assert f"; {len(screen.graphics)} shown, all: --columns 3" in "\n".join(screen.lines)


def test_parts_of_a_score_bring_back_the_lines_below_each_path() -> None:
    part = {"guide": "words", "space": "bridge", "rank": 3, "score": 0.5, "weight": 1.0}

    plain = _answered(answer(hit(1)), {"id-1": f"{FOLDER}/IMG_1.jpg"}, lines=50)
    explained = _answered(answer(hit(1, contributions=[part])), {"id-1": f"{FOLDER}/IMG_1.jpg"}, lines=50)

    assert not any("bridge by words" in line for line in plain.lines)
    assert any("bridge by words: rank 3" in line for line in explained.lines)
    assert any(line.startswith("1  1.000  /home/ann") for line in plain.lines)
    assert any(line.startswith(f"1  {FOLDER}"[:60]) for line in explained.lines)


def _answered(response: SearchResponse, paths: dict[str, str], *, lines: int) -> Rendered:
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system="truecolor", soft_wrap=True, highlight=False)
    print_answer(console, response, paths, grid=PictureGrid(Screen(Pictures.KITTY, 80, lines, CELL), lambda _: jpeg()))
    return screen_of(out.getvalue())
