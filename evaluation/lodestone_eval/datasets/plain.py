"""Readers of a user's own benchmark: a folder of pictures and a table, `captions.tsv` or `names.tsv`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lodestone_eval.datasets.base import (
    EvalQuery,
    EvalSet,
    Folder,
    caption_set,
    check_split,
    object_set,
    one_line,
    safe_name,
    same_text,
)
from lodestone_eval.splits import split_by_hash

_CAPTIONS_LAYOUT: Final = (
    "expected: DIR/captions.tsv with the columns file and caption, and DIR/images/ (or the pictures in DIR)"
)
_NAMES_LAYOUT: Final = "expected: DIR/names.tsv with the columns file and name, and DIR/images/ (or the pictures in DIR)"
_SPLITS: Final = ("train", "validation", "test", "all")


def read_captions(root: Path, split: str | None) -> EvalSet:
    """Read `captions.tsv`; every caption is a query.

    Splits are made by a hash of the file's name (see `split_by_hash`); the default is all.
    """
    split = split or "all"
    check_split("captions", split, _SPLITS)
    folder = Folder("captions", root, _CAPTIONS_LAYOUT)
    rows = list(_table(folder, "captions.tsv", "caption"))
    names = _part([name for name, _ in rows], split)
    return caption_set(folder, _files(root, names), ((name, text, "") for name, text in rows), split=split)


def read_names(root: Path, split: str | None) -> EvalSet:
    """Read `names.tsv`; every name is a query for the pictures that have it.

    Splits are made as for captions.
    """
    split = split or "all"
    check_split("names", split, _SPLITS)
    folder = Folder("names", root, _NAMES_LAYOUT)
    rows = list(_table(folder, "names.tsv", "name"))
    names = _part([name for name, _ in rows], split)
    in_split = frozenset(names)
    relevant: dict[str, set[str]] = {}
    texts: dict[str, str] = {}
    for name, text in rows:
        if name in in_split:
            relevant.setdefault(same_text(text), set()).add(name)
            texts.setdefault(same_text(text), text)
    queries = [EvalQuery(text, text, frozenset(relevant[key])) for key, text in texts.items()]
    return object_set(folder, _files(root, names), queries, split=split)


def _table(folder: Folder, file: str, column: str) -> Iterator[tuple[str, str]]:
    """Yield (file, text) of each row of a tab-separated table without quoting; other rows are counted as malformed."""
    path = folder.file(file)
    lines = folder.lines(path)
    header = next(lines, "")
    if [cell.strip().lower() for cell in header.split("\t")] != ["file", column]:
        raise folder.unreadable(path, f"its header is not `file` and `{column}`, tab-separated")
    for line in lines:
        cells = line.split("\t")
        name, text = (safe_name(cells[0]), one_line(cells[1])) if len(cells) == 2 else (None, "")
        if name is None or not text:
            folder.malformed()
        else:
            yield name, text


def _files(root: Path, names: list[str]) -> dict[str, Path]:
    base = root / "images" if (root / "images").is_dir() else root
    return {name: base / name for name in names}


def _part(names: list[str], split: str) -> list[str]:
    parts = split_by_hash(names)
    return {
        "train": list(parts.train),
        "validation": list(parts.validation),
        "test": list(parts.test),
        "all": list(dict.fromkeys(names)),
    }[split]
