"""A question to the terminal: which graphics protocols it knows, and how large a character is. It waits for a bounded time.

The question is asked only of a terminal that this process is in the foreground of, and not while somebody has typed ahead. It
ends with a request that every terminal answers (DA1, "primary device attributes"), so that silence about the rest is known
at once.
"""

from __future__ import annotations

import os
import re
import select
import sys
import time
from dataclasses import dataclass
from typing import Final

_KITTY: Final = b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\"
_CELL: Final = b"\x1b[16t"
_ATTRIBUTES: Final = b"\x1b[c"
_CLEAN: Final = b"\r\x1b[K"  # where a terminal printed what it did not understand
_ENOUGH: Final = re.compile(rb"\x1b\[\?([\d;]*)c")
_KITTY_ANSWER: Final = re.compile(rb"\x1b_Gi=31;OK\x1b\\")
_CELL_ANSWER: Final = re.compile(rb"\x1b\[6;(\d+);(\d+)t")
_SIXEL: Final = b"4"  # among the attributes
_LONGEST: Final = 4096  # bytes of an answer; the rest is somebody's file
_LARGEST_CELL: Final = 200  # pixels

TIMEOUT_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class TerminalAnswer:
    """What a terminal said.

    Attributes:
        kitty: Whether it knows kitty's graphics protocol.
        sixel: Whether it knows sixels.
        cell: Width and height of a character in pixels; None if it did not say.
    """

    kitty: bool = False
    sixel: bool = False
    cell: tuple[int, int] | None = None


def read_answer(answer: bytes) -> TerminalAnswer:
    """Return what an answer of a terminal says; it may be empty, cut off, or hold keys that somebody pressed."""
    attributes = _ENOUGH.search(answer)
    cell = _CELL_ANSWER.search(answer)
    size = None if cell is None else (int(cell[2][:4]), int(cell[1][:4]))
    return TerminalAnswer(
        kitty=_KITTY_ANSWER.search(answer) is not None,
        sixel=attributes is not None and _SIXEL in attributes[1].split(b";")[1:],  # the first is the kind of terminal
        cell=size if size is not None and all(0 < side <= _LARGEST_CELL for side in size) else None,
    )


def ask_terminal(*, kitty: bool = True, timeout_s: float = TIMEOUT_S) -> TerminalAnswer:
    """Ask the terminal of standard output, and return its answer; an empty one if it must not be asked or says nothing.

    Args:
        kitty: Whether kitty's question is asked, which a few terminals would print.
        timeout_s: Seconds to wait at most.
    """
    try:
        import termios
    except ImportError:  # Windows
        return TerminalAnswer()
    try:
        terminal = os.open(os.ttyname(sys.stdout.fileno()), os.O_RDWR | os.O_NOCTTY)
    except (OSError, ValueError):
        return TerminalAnswer()
    try:
        if os.tcgetpgrp(terminal) != os.getpgrp():  # in the background: reading would stop this process
            return TerminalAnswer()
        before = termios.tcgetattr(terminal)
        quiet = termios.tcgetattr(terminal)
        quiet[3] &= ~(termios.ICANON | termios.ECHO)
        quiet[6][termios.VMIN], quiet[6][termios.VTIME] = 0, 0
        termios.tcsetattr(terminal, termios.TCSANOW, quiet)
        try:
            if select.select([terminal], [], [], 0)[0]:  # typed ahead, for the shell
                return TerminalAnswer()
            sys.stdout.flush()
            os.write(terminal, (_KITTY if kitty else b"") + _CELL + _ATTRIBUTES)
            answer = _read(terminal, timeout_s)
            if kitty:
                os.write(terminal, _CLEAN)
            return read_answer(answer)
        finally:
            termios.tcsetattr(terminal, termios.TCSANOW, before)
    except (OSError, termios.error):
        return TerminalAnswer()
    finally:
        os.close(terminal)


def _read(terminal: int, timeout_s: float) -> bytes:
    answer = b""
    end = time.monotonic() + timeout_s
    while (left := end - time.monotonic()) > 0 and len(answer) < _LONGEST:
        if not select.select([terminal], [], [], left)[0]:
            break
        some = os.read(terminal, 1024)
        if not some:
            break
        answer += some
        if _ENOUGH.search(answer):
            break
    return answer
