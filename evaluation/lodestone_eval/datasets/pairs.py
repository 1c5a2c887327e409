"""Readers of Winoground and COLA: two captions made of the same words, and the two pictures that they fit.

Thrush et al., Winoground (2022); Ray et al., COLA, multi-objects setting (2023). The pictures of a pair get a folder with the
pair's name, so that a search can be limited to these two; a picture of several pairs occurs several times.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from lodestone.errors import InvalidRequestError
from lodestone_eval.datasets.base import MISSING, EvalPair, EvalSet, Folder, check_split, one_line, present, safe_name
from lodestone_schemas.api import MAX_QUERY_CHARS

_WINOGROUND_LAYOUT: Final = "expected: DIR/examples.jsonl and DIR/images/ex_0_img_0.png … (or both in DIR/data/)"
_COLA_NAME: Final = "COLA_multiobjects_matching_benchmark.json"
_COLA_LAYOUT: Final = f"expected: DIR/data/{_COLA_NAME} (or DIR/{_COLA_NAME}) and DIR/images/2414605.jpg … (or vg_gqa_images/)"

_Row = tuple[str, tuple[str, str], tuple[str, str], str]  # id, captions, names of pictures, label


def read_winoground(root: Path, split: str | None) -> EvalSet:
    """Read the pairs of `examples.jsonl`; the label is the collapsed tag (Object, Relation, Both)."""
    folder = Folder("winoground", root, _WINOGROUND_LAYOUT)
    check_split(folder.name, split, ())
    path = folder.file("examples.jsonl", "data/examples.jsonl")
    base = folder.folder("images", "data/images")
    return _pair_set(folder, _rows(folder, map(_parse, folder.lines(path)), _winoground_row), base)


def read_cola(root: Path, split: str | None) -> EvalSet:
    """Read the pairs `[address of picture 1, caption 1, address of picture 2, caption 2]`.

    A picture's file has the last part of its address as its name.
    """
    folder = Folder("cola", root, _COLA_LAYOUT)
    check_split(folder.name, split, ())
    path = folder.file(f"data/{_COLA_NAME}", _COLA_NAME)
    table = folder.json(path)
    if not isinstance(table, list):
        raise folder.unreadable(path, "it is no list of pairs")
    base = folder.folder("images", "data/images", "vg_gqa_images", "data/vg_gqa_images", "VG_100K")
    return _pair_set(folder, _rows(folder, list(enumerate(table)), _cola_row), base)


def _rows(folder: Folder, raw: Iterable[Any], read: Callable[[Any], _Row | None]) -> list[_Row]:
    rows = []
    for item in raw:
        row = read(item)
        if row is None or not all(0 < len(caption) <= MAX_QUERY_CHARS for caption in row[1]):
            folder.malformed()
        else:
            rows.append(row)
    return rows


def _parse(line: str) -> Any:  # noqa: ANN401 - whatever the line holds
    try:
        return json.loads(line)
    except ValueError:
        return None


def _winoground_row(row: Any) -> _Row | None:  # noqa: ANN401 - parsed JSON
    if not isinstance(row, dict) or not isinstance(row.get("id"), int | str):
        return None
    names = (safe_name(row.get("image_0")), safe_name(row.get("image_1")))
    if names[0] is None or names[1] is None:
        return None
    captions = (one_line(row.get("caption_0")), one_line(row.get("caption_1")))
    return f"ex_{row['id']}", captions, (_png(names[0]), _png(names[1])), one_line(row.get("collapsed_tag"))


def _png(name: str) -> str:
    """Return the file of an example's picture, which `examples.jsonl` names without its extension."""
    return name if PurePosixPath(name).suffix else f"{name}.png"


def _cola_row(numbered: tuple[int, Any]) -> _Row | None:
    number, row = numbered
    if not isinstance(row, list) or len(row) != 4 or not all(isinstance(cell, str) for cell in row):  # as published
        return None
    first, second = (safe_name(unquote(urlsplit(row[column]).path).rsplit("/", 1)[-1]) for column in (0, 2))
    if first is None or second is None or first == second:
        return None
    return f"pair_{number:04d}", (one_line(row[1]), one_line(row[3])), (first, second), ""


def _pair_set(folder: Folder, rows: Iterable[_Row], base: Path) -> EvalSet:
    pairs: list[EvalPair] = []
    pictures: dict[str, Path] = {}
    for pair_id, captions, files, label in rows:
        names = (f"{pair_id}/{PurePosixPath(files[0]).name}", f"{pair_id}/{PurePosixPath(files[1]).name}")
        pairs.append(EvalPair(pair_id, captions, names, label))
        pictures |= {name: base / file for name, file in zip(names, files, strict=True)}
    existing = present(folder, pictures)
    kept = tuple(pair for pair in pairs if all(name in existing for name in pair.pictures))
    if not kept:
        raise InvalidRequestError(
            f"{folder.name}: no pair is left in {str(folder.root)!r}", hint=folder.layout, missing=folder.skipped[MISSING]
        )
    if len(kept) < len(pairs):
        folder.skipped["pairs without both pictures"] += len(pairs) - len(kept)
    used = {name for pair in kept for name in pair.pictures}
    return EvalSet(
        folder.name, "pairs", None, {name: existing[name] for name in sorted(used)}, pairs=kept, skipped=dict(folder.skipped)
    )
