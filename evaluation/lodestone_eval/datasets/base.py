"""Common form of a benchmark: pictures, queries with their right pictures, or pairs, and counts of what was left out.

Readers are functions `(folder, split) -> EvalSet`. They open no picture. A row that cannot be used is counted in
`EvalSet.skipped` under the reason; a missing file is an error that names it and shows the layout.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
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
    """Describes one text query.

    Attributes:
        query_id: Id, the same in every run of this benchmark.
        text: The query's text.
        relevant: Names of the right pictures, at least one.
        judged: Names of the pictures that annotators checked for this query, right or wrong; None: all of them.
        label: Kind of query within the benchmark (a domain, a sentiment); reported apart where there are several.
    """

    query_id: str
    text: str
    relevant: frozenset[str]
    judged: frozenset[str] | None = None
    label: str = ""

    def among(self, names: Container[str]) -> EvalQuery:
        """Return the query with those of its right and its judged pictures that are among these names."""
        relevant = frozenset(name for name in self.relevant if name in names)
        judged = None if self.judged is None else frozenset(name for name in self.judged if name in names)
        return replace(self, relevant=relevant, judged=judged)


@dataclass(frozen=True, slots=True)
class EvalPair:
    """Holds two captions and two pictures, where caption i fits picture i only."""

    pair_id: str
    captions: tuple[str, str]
    pictures: tuple[str, str]
    label: str = ""


@dataclass(frozen=True, slots=True)
class EvalSet:
    """Holds a benchmark in memory.

    Attributes:
        name: The benchmark's name, as on the command line.
        kind: ranking: `queries` are searched among all pictures; pairs: captions are matched to two pictures at a time.
        split: Part of the benchmark; None for all.
        pictures: Name -> file. A name is a relative POSIX path, unique within the set.
        queries: Queries, in the benchmark's order.
        pairs: Pairs, in the benchmark's order.
        captions: Name -> captions that people wrote for this picture; empty where the benchmark has no captions.
        sidecars: Name -> captions that are to be indexed with the picture; none unless selected.
        skipped: Reason -> number of rows left out.
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
    """Finds the files of a benchmark's folder, and reports what was expected where one is missing.

    Attributes:
        name: The benchmark's name.
        root: Folder that the benchmark was unpacked to.
        layout: Description of the expected files, for the error.
        skipped: Counts what is left out, by reason.
    """

    name: str
    root: Path
    layout: str
    skipped: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        if not self.root.is_dir():
            raise NotFoundError(f"{self.name}: no folder {str(self.root)!r}", hint=self.layout)

    def file(self, *places: str) -> Path:
        """Return the first of these relative paths that is a file.

        Raises:
            NotFoundError: none is a file; the error names all of them.
        """
        path = self.optional_file(*places)
        if path is None:
            raise self._missing("file", places)
        return path

    def optional_file(self, *places: str) -> Path | None:
        """Return the first of these relative paths that is a file, or None."""
        return next((self.root / place for place in places if (self.root / place).is_file()), None)

    def folder(self, *places: str) -> Path:
        """Return the first of these relative paths that is a folder.

        Raises:
            NotFoundError: none is a folder; the error names all of them.
        """
        path = next((self.root / place for place in places if (self.root / place).is_dir()), None)
        if path is None:
            raise self._missing("folder", places)
        return path

    def json(self, path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
        """Return the content of a JSON file.

        Raises:
            InvalidRequestError: the file is no JSON; the error names the file and the place.
        """
        try:
            return json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise self.unreadable(path, str(error)) from error

    def lines(self, path: Path) -> Iterator[str]:
        """Return the lines of a UTF-8 file that are not blank, without their line ends.

        Raises:
            InvalidRequestError: the file cannot be read.
        """
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise self.unreadable(path, str(error)) from error
        # splitlines() is not used, because a caption may hold a character that it treats as a line's end.
        return (line for raw in text.split("\n") if (line := raw.rstrip("\r")).strip())

    def rows(self, table: Any, key: str, path: Path) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever the file holds
        """Return the objects of the list under `key` of a parsed file; other items of the list are counted as malformed.

        Raises:
            InvalidRequestError: there is no such list.
        """
        items = table.get(key) if isinstance(table, dict) else None
        if not isinstance(items, list):
            raise self.unreadable(path, f"no list {key!r} in it")
        rows = [row for row in items if isinstance(row, dict)]
        self.malformed(len(items) - len(rows))
        return rows

    def malformed(self, count: int = 1) -> None:
        """Count rows that cannot be used."""
        if count:
            self.skipped[MALFORMED] += count

    def unreadable(self, path: Path, problem: str) -> InvalidRequestError:
        """Return the error for a file that exists and differs from the published format."""
        return InvalidRequestError(f"{self.name}: cannot use {str(path)!r}: {problem}", hint=self.layout, path=str(path))

    def _missing(self, what: str, places: Sequence[str]) -> NotFoundError:
        expected = " or ".join(repr(str(self.root / place)) for place in places)
        return NotFoundError(f"{self.name}: no {what} {expected}", hint=self.layout)


def sentences_of(folder: Folder, path: Path, split: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield (picture, content of its field `sentences`) of a JSON file in Karpathy's layout, for one split or `all`."""
    for row in folder.rows(folder.json(path), "images", path):
        name, sentences = safe_name(row.get("filename")), row.get("sentences")
        if name is None or not isinstance(sentences, list):
            folder.malformed()
        elif split == "all" or row.get("split") == split:
            yield name, sentences


def present(folder: Folder, pictures: Mapping[str, Path]) -> dict[str, Path]:
    """Return the pictures whose files exist; missing ones are counted.

    Raises:
        NotFoundError: no file exists; the error names the first.
        InvalidRequestError: `pictures` is empty.
    """
    if not pictures:
        raise InvalidRequestError(f"{folder.name}: no picture is named in {str(folder.root)!r}", hint=folder.layout)
    existing = {name: path for name, path in pictures.items() if path.is_file()}
    if not existing:
        first = str(next(iter(pictures.values())))
        raise NotFoundError(
            f"{folder.name}: none of its {len(pictures)} pictures is there; the first should be {first!r}", hint=folder.layout
        )
    if missing := len(pictures) - len(existing):
        folder.skipped[MISSING] += missing
    return existing


def caption_set(
    folder: Folder,
    pictures: Mapping[str, Path],
    captions: Iterable[tuple[str, str, str]],
    *,
    split: str | None,
) -> EvalSet:
    """Return a set whose queries are the captions: one query for each distinct text, right for every picture that has it.

    Args:
        folder: Counts what is left out.
        pictures: Name -> file, of the split.
        captions: (name, caption, label); captions of pictures outside `pictures` are ignored.
        split: Name of the split.
    """
    existing = present(folder, pictures)
    texts: dict[str, list[str]] = {}
    relevant: dict[str, dict[str, None]] = {}
    first: dict[str, tuple[str, str, str]] = {}
    for name, raw, label in captions:
        text = one_line(raw)
        if name not in existing or not text:
            continue
        number = len(texts.setdefault(name, []))
        texts[name].append(text)
        relevant.setdefault(same_text(text), {})[name] = None
        first.setdefault(same_text(text), (f"{name}#{number}", text, label))
    queries = [
        EvalQuery(query_id, text, frozenset(relevant[key]), label=label) for key, (query_id, text, label) in first.items()
    ]
    return finish(
        folder,
        existing,
        queries,
        split=split,
        captions={name: tuple(captions_of_picture) for name, captions_of_picture in texts.items()},
    )


def object_set(
    folder: Folder,
    pictures: Mapping[str, Path],
    queries: Iterable[EvalQuery],
    *,
    split: str | None,
) -> EvalSet:
    """Return a set whose queries are names of objects; pictures whose files are missing are removed from the queries."""
    existing = present(folder, pictures)
    return finish(folder, existing, [query.among(existing) for query in queries], split=split)


def finish(
    folder: Folder,
    pictures: Mapping[str, Path],
    queries: Iterable[EvalQuery],
    *,
    split: str | None,
    captions: Mapping[str, tuple[str, ...]] | None = None,
) -> EvalSet:
    """Return the set, without queries that have no right picture or are too long.

    Raises:
        InvalidRequestError: no query is left.
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
    """Return a picture's name from a file as a relative POSIX path that stays inside its folder; None for anything else."""
    if not isinstance(name, str) or not name or "\0" in name or "\\" in name:
        return None
    path = PurePosixPath(name)
    return None if path.is_absolute() or ".." in path.parts or not path.name else str(path)


def one_line(text: object) -> str:
    """Return the text with white space folded to single spaces; empty for anything that is no text."""
    return " ".join(text.replace("\0", " ").split()) if isinstance(text, str) else ""


def same_text(text: str) -> str:
    """Return a key that is equal for captions that differ only in case, white space and the final full stop."""
    return one_line(text).casefold().rstrip(" .")


def check_split(name: str, split: str | None, known: Sequence[str]) -> None:
    """Check that the benchmark has this split.

    Raises:
        InvalidRequestError: it does not.
    """
    if split is not None and split not in known:
        raise InvalidRequestError(f"{name} has no split {split!r}", hint=f"its splits: {', '.join(known) or 'none'}")
