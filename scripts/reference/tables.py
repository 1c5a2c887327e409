"""Tables in Markdown of the reference pages."""

from __future__ import annotations

from collections.abc import Sequence


def cell(text: str) -> str:
    """Return a text that may stand in a cell: one line, and no bar that ends it."""
    return " ".join(text.split()).replace("|", "\\|")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table, or nothing where there are no rows; cells are Markdown already."""
    if not rows:
        return ""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
