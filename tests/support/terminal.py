"""A terminal for tests: a pseudo-terminal that answers questions, a screen with its graphics, and decoders of pictures."""

from __future__ import annotations

import base64
import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image
from rich.cells import cell_len
from tests.support.documents import ROOT

# For the program in the terminal: wait for an answer as long as a busy machine takes, not half a second.
PATIENT_PROBE = "from lodestone_cli.terminal import probe\nprobe.ask_terminal.__kwdefaults__['timeout_s'] = 180.0\n"
KITTY_SAYS = b"\x1b_Gi=31;OK\x1b\\"
DA1 = b"\x1b[c"


@dataclass(frozen=True)
class Shown:
    """What a command wrote to its terminal, and its exit code."""

    code: int
    raw: bytes

    @property
    def text(self) -> str:
        return self.raw.decode()


def in_terminal(
    arguments: Sequence[str],
    env: Mapping[str, str],
    *,
    answer: bytes = b"",
    size: tuple[int, int] = (80, 40),
    interrupt_at: bytes | None = None,
    timeout_s: float = 240,
) -> Shown:
    """Run a command in a terminal of (columns, lines) that answers the question for its attributes with `answer`.

    Ctrl-C is pressed when the command has written `interrupt_at`.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    process = subprocess.Popen(
        arguments,
        env=dict(env),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no threads are started before it
    )
    os.close(theirs)
    out, asked = b"", 0
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            some = os.read(ours, 1 << 16)
        except OSError:  # closed by the last process that wrote to it
            break
        if not some:
            break
        out += some
        if out.count(DA1) > asked:
            asked += 1
            os.write(ours, answer)
        if interrupt_at is not None and interrupt_at in out:
            os.write(ours, b"\x03")
            interrupt_at = None
    else:
        process.kill()
    os.close(ours)
    return Shown(process.wait(timeout=240), out)


@dataclass
class Screen:
    """Lines of text as a terminal shows them, endless downwards, and the graphics with the (line, column) where each begins."""

    lines: list[str] = field(default_factory=list)
    graphics: list[tuple[int, int, str]] = field(default_factory=list)
    links: list[str] = field(default_factory=list)


_TOKEN = re.compile(
    r"(?P<graphics>\x1b_G.*?\x1b\\|\x1bP.*?\x1b\\|\x1b\]1337;.*?\x07)|\x1b\]8;[^;]*;(?P<link>.*?)\x1b\\"
    r"|\x1b\[(?P<number>\d*)(?P<move>[ABCK])|\x1b\[(?:[\d;]*m|\?25[hl])|(?P<keep>\x1b[78])|(?P<character>[^\x1b])",
    re.DOTALL,
)


def screen_of(text: str, *, width: int = 10_000) -> Screen:
    """Interpret text as a terminal of this width does; AssertionError for a sequence that it does not know."""
    cells: dict[tuple[int, int], str] = {}
    shown, line, column, kept, place = Screen(), 0, 0, (0, 0), 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        assert token is not None, f"unknown sequence {text[place : place + 20]!r}"
        place = token.end()
        if graphics := token["graphics"]:
            shown.graphics.append((line, column, graphics))
        elif token["link"]:
            shown.links.append(token["link"])
        elif move := token["move"]:
            number = int(token["number"] or 1)
            if move == "K":  # erases the line: all of it, or what follows
                start = 0 if token["number"] == "2" else column
                cells = {at: character for at, character in cells.items() if at[0] != line or at[1] < start}
            line += {"A": -number, "B": number}.get(move, 0)
            column += number if move == "C" else 0
            assert line >= 0
        elif token["keep"] == "\x1b7":
            kept = (line, column)
        elif token["keep"]:
            line, column = kept
        elif (character := token["character"]) == "\n":
            line, column = line + 1, 0
        elif character == "\r":
            column = 0
        elif character:
            assert character.isprintable(), f"{character!r} reached the terminal"
            assert column + cell_len(character) <= width, f"line {line} is wider than the terminal"
            cells[line, column] = character
            column += cell_len(character)
    last = max((at for at, _ in cells), default=-1)
    for number in range(last + 1):
        ends = [at + cell_len(c) for (on, at), c in cells.items() if on == number]
        row, at = "", 0
        while at < max(ends, default=0):
            character = cells.get((number, at), " ")
            row, at = row + character, at + max(cell_len(character), 1)
        shown.lines.append(row.rstrip())
    return shown


def decode_kitty(text: str) -> tuple[Image.Image, dict[str, str]]:
    """Return the picture of one drawing by kitty's protocol, which may have many chunks, and the keys of the first."""
    chunks = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", text)
    keys = [dict(pair.split("=") for pair in head.split(",")) for head, _ in chunks]
    assert [key["m"] for key in keys] == ["1"] * (len(chunks) - 1) + ["0"]
    assert all(len(data) <= 4096 for _, data in chunks)
    data = base64.standard_b64decode("".join(data for _, data in chunks))
    return Image.open(io.BytesIO(data)).convert("RGB"), keys[0]


def decode_sixel(text: str) -> Image.Image:
    """Return the picture of a sixel sequence; black where nothing is drawn."""
    match = re.fullmatch(r'\x1bP0;1;0q"1;1;(\d+);(\d+)(.*)\x1b\\', text, re.DOTALL)
    assert match is not None
    image = Image.new("RGB", (int(match[1]), int(match[2])))
    colours: dict[int, tuple[int, int, int]] = {}
    colour, x, top = 0, 0, 0
    for token in re.finditer(r"#(\d+);2;(\d+);(\d+);(\d+)|#(\d+)|!(\d+)([?-~])|([?-~])|([$-])", match[3]):
        if token[1]:
            red, green, blue = (round(int(share) * 255 / 100) for share in token.groups()[1:4])
            colours[int(token[1])] = (red, green, blue)
        elif token[5]:
            colour = int(token[5])
        elif token[9]:
            x, top = 0, top + 6 * (token[9] == "-")
        else:
            bits = ord(token[7] or token[8]) - 63
            run = int(token[6] or 1)
            for row in range(6):
                if bits >> row & 1:
                    image.paste(colours[colour], (x, top + row, x + run, top + row + 1))
            x += run
    return image


def child_script(folder: Path, source: str) -> Path:
    """Write a program for a terminal of its own, which may import the tests' modules, and return its path."""
    path = folder / "child.py"
    path.write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{source}", encoding="utf-8")
    return path
