"""What the terminal of standard output can show: one way to draw pictures, or none, with the sizes that drawing needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lodestone_cli.options import Pictures
from lodestone_cli.terminal.probe import TerminalAnswer, ask_terminal

if TYPE_CHECKING:
    from rich.console import Console

_USUAL_CELL: Final = (10, 20)  # pixels, where nobody knows
_MULTIPLEXERS: Final = ("screen", "tmux")  # they hand on no graphics of kitty; variables of the terminal around them are there
_KITTY_PROGRAMS: Final = frozenset({"ghostty"})
_ITERM_PROGRAMS: Final = frozenset({"iTerm.app", "WezTerm"})
_PRINTS_QUESTIONS: Final = frozenset({"Apple_Terminal"})
_SILENT: Final = frozenset({"", "dumb", "unknown", "linux"})  # values of TERM that no question is asked of
_TRUE_COLOUR: Final = "truecolor"
_COLOURS: Final = frozenset({_TRUE_COLOUR, "256"})


@dataclass(frozen=True, slots=True)
class Screen:
    """A way to draw pictures on this terminal.

    Attributes:
        pictures: The way; never AUTO.
        columns: Width of the terminal in characters.
        lines: Its height.
        cell: Width and height of a character in pixels.
        true_colour: Whether it knows 24-bit colours.
    """

    pictures: Pictures
    columns: int
    lines: int
    cell: tuple[int, int] = _USUAL_CELL
    true_colour: bool = True


def screen_of(
    console: Console,
    wanted: Pictures,
    *,
    environment: Mapping[str, str] = os.environ,
    ask: Callable[..., TerminalAnswer] = ask_terminal,
) -> Screen | None:
    """Return how pictures are drawn on standard output; None where none are: in pipes, with NO_COLOR, on plain terminals.

    Args:
        console: Where the answer is printed.
        wanted: What the user wants.
        environment: The process's variables.
        ask: Asks the terminal.
    """
    if wanted is Pictures.NONE or not sys.stdout.isatty() or environment.get("NO_COLOR"):
        return None
    if environment.get("TERM", "") in {"dumb", "unknown"}:
        return None
    columns, lines = os.get_terminal_size(sys.stdout.fileno())
    cell = _cell_of(sys.stdout.fileno())
    answer = TerminalAnswer(cell=cell)
    pictures = _by_environment(environment) if wanted is Pictures.AUTO else wanted
    needs_cell = pictures in {Pictures.KITTY, Pictures.SIXEL} and cell is None
    if (pictures is None or needs_cell) and environment.get("TERM", "") not in _SILENT:
        answer = ask(kitty=environment.get("TERM_PROGRAM") not in _PRINTS_QUESTIONS)
    if pictures is None:
        pictures = Pictures.KITTY if answer.kitty else Pictures.SIXEL if answer.sixel else _blocks(console)
    if pictures is None:
        return None
    return Screen(
        pictures,
        columns=min(columns or console.width, console.width),
        lines=lines or console.height,
        cell=cell or answer.cell or _USUAL_CELL,
        true_colour=console.color_system == _TRUE_COLOUR,
    )


def _by_environment(environment: Mapping[str, str]) -> Pictures | None:
    """Return the protocol that variables name for certain; None where the terminal has to be asked."""
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if "TMUX" in environment or term.startswith(_MULTIPLEXERS):
        return None
    if term in {"xterm-kitty", "xterm-ghostty"} or "KITTY_WINDOW_ID" in environment or program in _KITTY_PROGRAMS:
        return Pictures.KITTY
    if program in _ITERM_PROGRAMS or environment.get("LC_TERMINAL") == "iTerm2":
        return Pictures.ITERM2
    return None


def _blocks(console: Console) -> Pictures | None:
    writable = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return Pictures.BLOCKS if writable and console.color_system in _COLOURS else None


def _cell_of(descriptor: int) -> tuple[int, int] | None:
    """Return width and height of a character in pixels as the system knows them; None where it does not."""
    try:
        import fcntl
        import struct
        import termios

        told = fcntl.ioctl(descriptor, termios.TIOCGWINSZ, bytes(8))
    except (ImportError, OSError):
        return None
    lines, columns, width, height = struct.unpack("HHHH", told)
    if not (lines and columns and width >= columns and height >= lines):
        return None
    return width // columns, height // lines
