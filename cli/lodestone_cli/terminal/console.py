"""Consoles on standard output and standard error, and tables on them.

A terminal breaks or folds what is wider than it. Where the output goes to a pipe or a file, nobody has a width: every row of a
table stays one line and nothing is cut, unless the variable COLUMNS asks for a width.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

UNLIMITED: Final = 1_000_000
"""Columns of a console that has no width: more than any row takes."""


def output_console() -> Console:
    """Return a console on standard output, for results that people read."""
    from rich.console import Console

    plain = bool(os.environ.get("NO_COLOR"))  # Rich would leave bold, dim and links
    system: Literal["auto"] | None = None if plain else "auto"
    console = Console(highlight=False, soft_wrap=True, emoji=False, color_system=system)  # a file may be called ":cat:.jpg"
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS", "").isdecimal():
        console.width = UNLIMITED
    return console


def message_console() -> Console:
    """Return a console on standard error, for progress and remarks."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def print_table(console: Console, table: Table, *, markup: bool | None = None) -> None:
    """Print a table; outside a terminal without the spaces that fill its last column.

    Args:
        console: Where it is printed.
        table: The table.
        markup: Whether cells hold markup; None for the console's own choice.
    """
    if console.is_terminal:
        console.print(table, markup=markup)
        return
    with console.capture() as captured:
        console.print(table, markup=markup)
    console.file.write("".join(f"{line.rstrip(' ')}\n" for line in captured.get().split("\n")[:-1]))


def text_width(console: Console, widest: int) -> int:
    """Return the columns of running text: those of the terminal, `widest` at most; unlimited where there is no terminal."""
    return min(console.width, widest) if console.is_terminal and console.width < UNLIMITED else console.width
