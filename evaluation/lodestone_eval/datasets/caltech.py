"""Reader of Caltech-256: one folder per category, `001.ak47/001_0001.jpg`, and the categories' names are the queries.

Griffin, Holub and Perona, Caltech-256 Object Category Dataset (2007).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from lodestone.errors import NotFoundError
from lodestone_eval.datasets.base import MALFORMED, EvalQuery, EvalSet, Folder, check_split, object_set

_LAYOUT: Final = "expected: DIR/256_ObjectCategories/001.ak47/001_0001.jpg … (or the category folders in DIR itself)"
_CATEGORY: Final = re.compile(r"(\d{3})\.(.+)")
_PICTURE: Final = re.compile(r"\d{3}_\d{4}\.jpe?g", re.IGNORECASE)
_CLUTTER: Final = "clutter"


def read_caltech256(root: Path, split: str | None) -> EvalSet:
    """Read Caltech-256; every category is a query except `257.clutter`, which only provides wrong pictures.

    Stray files are counted as malformed.
    """
    folder = Folder("caltech256", root, _LAYOUT)
    check_split(folder.name, split, ())
    base = root / "256_ObjectCategories"
    base = base if base.is_dir() else root
    pictures: dict[str, Path] = {}
    queries: list[EvalQuery] = []
    for category in sorted(path for path in base.iterdir() if path.is_dir()):
        match = _CATEGORY.fullmatch(category.name)
        if match is None:
            folder.skipped[MALFORMED] += 1
            continue
        entries = sorted(category.iterdir())
        members = {f"{category.name}/{path.name}": path for path in entries if _PICTURE.fullmatch(path.name)}
        folder.malformed(len(entries) - len(members))
        pictures |= members
        if match[2] != _CLUTTER:
            queries.append(EvalQuery(category.name, _words(match[2]), frozenset(members)))
    if not pictures:
        raise NotFoundError(f"{folder.name}: no category with pictures in {str(base)!r}", hint=_LAYOUT)
    return object_set(folder, pictures, queries, split=None)


def _words(category: str) -> str:
    """Return a category's words: `faces-easy-101` -> `faces easy`, where 101 means that the category was in Caltech-101."""
    return category.removesuffix("-101").replace("-", " ")
