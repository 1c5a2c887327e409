"""Google-style docstrings: their text and their sections."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import Final

SECTIONS: Final = ("Args", "Attributes", "Returns", "Yields", "Raises", "Example", "Examples", "Note")
_ITEM: Final = re.compile(r"(\*{0,2}[\w., ]+?)(?: \([^)]*\))?:\s+(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring, divided into text and sections.

    Attributes:
        text: What stands outside of sections.
        sections: Section -> its text, without the section's own indentation.
    """

    text: str
    sections: dict[str, str] = field(default_factory=dict)

    def items(self, section: str) -> dict[str, str]:
        """Return the `name: text` items of a section; `first, second: text` counts for both names."""
        items: dict[str, str] = {}
        for block in re.split(r"\n(?=\S)", self.sections.get(section, "")):
            if match := _ITEM.fullmatch(block.strip()):
                text = " ".join(match.group(2).split())
                items |= {name.strip().lstrip("*"): text for name in match.group(1).split(",")}
        return items


def parse(docstring: str) -> Docstring:
    """Split a docstring into its text and its sections."""
    text: list[str] = []
    sections: dict[str, list[str]] = {}
    current: list[str] = text
    for line in docstring.splitlines():
        name = line.removesuffix(":")
        if line.endswith(":") and name in SECTIONS:
            current = sections.setdefault(name, [])
        else:
            if current is not text and line and not line.startswith(" "):
                current = text
            current.append(line)
    return Docstring(
        "\n".join(text).strip(),
        {name: inspect.cleandoc("\n" + "\n".join(lines)).strip() for name, lines in sections.items()},
    )
