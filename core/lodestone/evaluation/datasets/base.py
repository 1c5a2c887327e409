"""What is a benchmark once it is read? Pictures, and queries with their right pictures, or pairs; and what was left out.

Readers are functions `(folder, split) -> EvalSet`. They open no picture. A row that cannot be used is counted in
`EvalSet.skipped` under what is wrong with it; a file that is missing is an error that names it and shows the layout.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_schemas.api import MAX_QUERY_CHARS

Kind = Literal["ranking", "pairs"]

MALFORMED: Final = "malformed rows"
MISSING: Final = "pictures that are not there"
UNASKABLE: Final = "queries without a right picture"
TOO_LONG: Final = "queries that are too long"


@dataclass(frozen=True, slots=True)
class EvalQuery:
    """One query in words.

    Attributes:
        query_id: The same in every run of this benchmark.
        text: What is asked.
        relevant: Names of the right pictures, at least one.
        judged: Names of the pictures that somebody looked at for this query, right or wrong; None: all of them.
        label: Kind of query within the benchmark (a domain, a sentiment); reported apart where there are several.
    """

    query_id: str
    text: str
    relevant: frozenset[str]
    judged: frozenset[str] | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class EvalPair:
    """Two captions and two pictures of which each caption fits one: caption i is that of picture i."""

    pair_id: str
    captions: tuple[str, str]
    pictures: tuple[str, str]
    label: str = ""


@dataclass(frozen=True, slots=True)
class EvalSet:
    """A benchmark, read.

    Attributes:
        name: The benchmark's, as on the command line.
        kind: ranking: `queries` are asked among all pictures; pairs: captions are told apart, two pictures at a time.
        split: Which part of it; None for all.
        pictures: Name -> file. A name is a relative POSIX path, unique within the set.
        queries: Queries, in the benchmark's order.
        pairs: Pairs, in the benchmark's order.
        captions: Name -> what people wrote of this picture; empty where the benchmark has no captions.
        sidecars: Name -> captions that are to be indexed with the picture; none unless selected.
        skipped: What was left out -> how often.
    """

    name: str
    kind: Kind
    split: str | None
    pictures: Mapping[str, Path]
    queries: tuple[EvalQuery, ...] = ()
    pairs: tuple[EvalPair, ...] = ()
    captions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sidecars: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Folder:
    """A benchmark's folder: finds its files, and says what was expected where one is missing.

    Attributes:
        name: The benchmark's.
        root: Where it was unpacked.
        layout: How its files lie, for the error.
        skipped: Counts what is left out.
    """

    name: str
    root: Path
    layout: str
    skipped: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        if not self.root.is_dir():
            raise NotFoundError(f"{self.name}: no folder {str(self.root)!r}", hint=self.layout)

    def file(self, *places: str) -> Path:
        """The first of these relative paths that is a file; `NotFoundError` names them all."""
        found = self.optional_file(*places)
        if found is None:
            raise self._missing("file", places)
        return found

    def optional_file(self, *places: str) -> Path | None:
        """The first of these relative paths that is a file."""
        return next((self.root / place for place in places if (self.root / place).is_file()), None)

    def folder(self, *places: str) -> Path:
        """The first of these relative paths that is a folder; `NotFoundError` names them all."""
        found = next((self.root / place for place in places if (self.root / place).is_dir()), None)
        if found is None:
            raise self._missing("folder", places)
        return found

    def json(self, path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
        """The parsed file; `InvalidRequestError` names the file and the place that is wrong."""
        try:
            return json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise self.unreadable(path, str(error)) from error

    def lines(self, path: Path) -> Iterator[str]:
        """The lines of a UTF-8 file that are not empty, without their ends."""
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise self.unreadable(path, str(error)) from error
        # Not splitlines(): a caption may hold a character that counts as a line's end there.
        return (line for raw in text.split("\n") if (line := raw.rstrip("\r")).strip())

    def rows(self, table: Any, key: str, path: Path) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever the file holds
        """The list of objects under `key` of a parsed file; what is no object in it is counted."""
        found = table.get(key) if isinstance(table, dict) else None
        if not isinstance(found, list):
            raise self.unreadable(path, f"no list {key!r} in it")
        rows = [row for row in found if isinstance(row, dict)]
        self.malformed(len(found) - len(rows))
        return rows

    def malformed(self, count: int = 1) -> None:
        """Count rows that cannot be used."""
        if count:
            self.skipped[MALFORMED] += count

    def unreadable(self, path: Path, problem: str) -> InvalidRequestError:
        """The error for a file that is there and not as published."""
        return InvalidRequestError(f"{self.name}: cannot use {str(path)!r}: {problem}", hint=self.layout, path=str(path))

    def _missing(self, what: str, places: Sequence[str]) -> NotFoundError:
        expected = " or ".join(repr(str(self.root / place)) for place in places)
        return NotFoundError(f"{self.name}: no {what} {expected}", hint=self.layout)


def sentences_of(folder: Folder, path: Path, split: str) -> Iterator[tuple[str, list[Any]]]:
    """(picture, what stands there as its sentences) of a JSON file in Karpathy's layout, of one split or `all`."""
    for row in folder.rows(folder.json(path), "images", path):
        name, sentences = safe_name(row.get("filename")), row.get("sentences")
        if name is None or not isinstance(sentences, list):
            folder.malformed()
        elif split == "all" or row.get("split") == split:
            yield name, sentences


def present(folder: Folder, pictures: Mapping[str, Path]) -> dict[str, Path]:
    """The pictures whose files are there; the others are counted.

    Raises:
        NotFoundError: none is there; names one.
        InvalidRequestError: none was named at all.
    """
    if not pictures:
        raise InvalidRequestError(f"{folder.name}: no picture is named in {str(folder.root)!r}", hint=folder.layout)
    found = {name: path for name, path in pictures.items() if path.is_file()}
    if not found:
        first = str(next(iter(pictures.values())))
        raise NotFoundError(
            f"{folder.name}: none of its {len(pictures)} pictures is there; the first should be {first!r}", hint=folder.layout
        )
    if missing := len(pictures) - len(found):
        folder.skipped[MISSING] += missing
    return found


def caption_set(
    folder: Folder,
    pictures: Mapping[str, Path],
    captions: Iterable[tuple[str, str, str]],
    *,
    split: str | None,
) -> EvalSet:
    """A set whose queries are the captions: one query for each different text, right for every picture that has it.

    Args:
        folder: Counts what is left out.
        pictures: Name -> file, of the split.
        captions: (name, caption, label); those of pictures outside `pictures` are passed over.
        split: Its name.
    """
    here = present(folder, pictures)
    texts: dict[str, list[str]] = {}
    relevant: dict[str, dict[str, None]] = {}
    first: dict[str, tuple[str, str, str]] = {}
    for name, raw, label in captions:
        text = one_line(raw)
        if name not in here or not text:
            continue
        number = len(texts.setdefault(name, []))
        texts[name].append(text)
        relevant.setdefault(same_text(text), {})[name] = None
        first.setdefault(same_text(text), (f"{name}#{number}", text, label))
    queries = [
        EvalQuery(query_id, text, frozenset(relevant[key]), label=label) for key, (query_id, text, label) in first.items()
    ]
    return finish(folder, here, queries, split=split, captions={name: tuple(found) for name, found in texts.items()})


def object_set(
    folder: Folder,
    pictures: Mapping[str, Path],
    queries: Iterable[EvalQuery],
    *,
    split: str | None,
) -> EvalSet:
    """A set whose queries are names of things; pictures that are not there are taken out of them."""
    here = present(folder, pictures)
    kept = [
        replace(
            query,
            relevant=query.relevant & here.keys(),
            judged=None if query.judged is None else query.judged & here.keys(),
        )
        for query in queries
    ]
    return finish(folder, here, kept, split=split)


def finish(
    folder: Folder,
    pictures: Mapping[str, Path],
    queries: Iterable[EvalQuery],
    *,
    split: str | None,
    captions: Mapping[str, tuple[str, ...]] | None = None,
) -> EvalSet:
    """Leave out what cannot be asked.

    Raises:
        InvalidRequestError: nothing is left.
    """
    kept: list[EvalQuery] = []
    for query in queries:
        if not query.relevant:
            folder.skipped[UNASKABLE] += 1
        elif len(query.text) > MAX_QUERY_CHARS:
            folder.skipped[TOO_LONG] += 1
        else:
            kept.append(query)
    if not kept:
        raise InvalidRequestError(f"{folder.name}: no query is left in {str(folder.root)!r}", hint=folder.layout)
    return EvalSet(folder.name, "ranking", split, pictures, tuple(kept), captions=captions or {}, skipped=dict(folder.skipped))


def safe_name(name: object) -> str | None:
    """A picture's name from a file: a relative POSIX path that stays inside its folder; None for anything else."""
    if not isinstance(name, str) or not name or "\0" in name or "\\" in name:
        return None
    path = PurePosixPath(name)
    return None if path.is_absolute() or ".." in path.parts or not path.name else str(path)


def one_line(text: object) -> str:
    """White space folded; empty for what is no text."""
    return " ".join(text.replace("\0", " ").split()) if isinstance(text, str) else ""


def same_text(text: str) -> str:
    """Equal for captions that say the same to a reader: case, white space and the final stop do not count."""
    return one_line(text).casefold().rstrip(" .")


def check_split(name: str, split: str | None, known: Sequence[str]) -> None:
    """Raise `InvalidRequestError` for a split that the benchmark does not have."""
    if split is not None and split not in known:
        raise InvalidRequestError(f"{name} has no split {split!r}", hint=f"its splits: {', '.join(known) or 'none'}")
