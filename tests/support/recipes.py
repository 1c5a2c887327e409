"""Recipes of the documentation, followed to the letter."""

from __future__ import annotations

import re
from pathlib import Path


def follow(recipe: str, product: Path) -> set[str]:
    """Do what the numbered sections of the recipe say, and return the files that they touch.

    The heading of a section names a file. Its code goes below the line that the text before it names, or is a whole new file.
    """
    touched: set[str] = set()
    for section in re.split(r"^## ", recipe, flags=re.MULTILINE)[1:]:
        heading, text = section.split("\n", 1)
        if not heading[0].isdigit():
            continue
        (name,) = re.findall(r"`([^`]+\.py)`", heading)
        path = product / name
        for before, code in re.findall(r"(.*?)^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
            below = re.findall(r"Below the line `([^`]+)` add:", before)
            if not below:
                assert not path.exists()
                path.write_text(code, "utf-8")
                continue
            lines = path.read_text("utf-8").splitlines(keepends=True)
            assert lines.count(below[-1] + "\n") == 1, f"the recipe speaks of the line {below[-1]!r} in {name}"
            place = lines.index(below[-1] + "\n") + 1
            path.write_text("".join([*lines[:place], code, *lines[place:]]), "utf-8")
        touched.add(name)
    return touched
