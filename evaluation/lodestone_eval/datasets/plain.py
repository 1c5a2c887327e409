"""Readers of a user's own benchmark: a folder of pictures and a table, `captions.tsv` or `names.tsv`.

Split of captioned pictures by hash: one part for training, one for choosing, one for the final figure. The rule: order the
distinct file names by the SHA-256 of their UTF-8 bytes; the first three quarters are `train`, the next twelfth is
`validation`, the rest `test` (6,000 names: 4,500 / 500 / 1,000). It needs no table, and it has no seed that could be tuned.
`PINNED` holds the digests of the parts that the published figures were measured on: `Split.digests` of the same files must be
equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Split:
    """Holds the file names of each part, in the order of their hashes."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    @property
    def digests(self) -> dict[str, str]:
        """Return part -> SHA-256 of its names, joined by newlines."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        return {part: hashlib.sha256("\n".join(names).encode()).hexdigest() for part, names in parts.items()}


def split_by_hash(names: Iterable[str]) -> Split:
    """Split distinct file names by the module's rule; duplicates count once.

    Args:
        names: File names relative to the set's folder, in any order.
    """
    ordered = sorted(set(names), key=lambda name: (hashlib.sha256(name.encode()).digest(), name))
    first, second = len(ordered) * 3 // 4, len(ordered) * 5 // 6
    return Split(tuple(ordered[:first]), tuple(ordered[first:second]), tuple(ordered[second:]))


# Flickr8k, official training split, file names as published ("1000268201_693b08cb0e.jpg").
PINNED: Final[dict[str, str]] = {
    "train": "c0011de1b21c93e61dfba8acaac265388a9caafc9d09d587f5a40f499d5c16bc",
    "validation": "43f1c5545803d92d87efd9b92d1111ece0b0e9d84d2cf9816e0a80949fdbece9",
    "test": "5222e34ecc8c598b16747dd8e859b14681c67f3881f0d988c371dc5324d3472c",
}
