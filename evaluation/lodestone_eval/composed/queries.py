"""Common form of a benchmark of composed queries: pictures, queries of pictures and words, and their right pictures.

Readers are functions `(folder, split) -> ComposedSet`, as those of text queries are in `lodestone_eval.datasets`. They
open no picture. A row that cannot be used is counted under the reason; a missing file is an error that shows the layout.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Final

from lodestone.errors import InvalidRequestError
from lodestone_eval.datasets.base import TOO_LONG, UNASKABLE, Folder, present
from lodestone_schemas.api import MAX_QUERY_CHARS

NO_REFERENCE: Final = "queries whose reference picture is not there"

Region = tuple[float, float, float, float]
"""Part of a picture: left, top, width and height in its pixels."""


@dataclass(frozen=True, slots=True)
class QueryPicture:
    """Describes a picture of a query.

    Attributes:
        path: Its file.
        region: Part of it that is meant; None for all of it.
    """

    path: Path
    region: Region | None = None


@dataclass(frozen=True, slots=True)
class ComposedQuery:
    """Describes one composed query.

    Attributes:
        query_id: Id as published, or the query's place.
        pictures: Pictures of the query, the reference (MUST's target modality) first.
        words: Texts of the query, each a part of its own.
        relevant: Names of the right pictures; empty where the truth is not published.
        target: Name of the one picture that the words were written for, where a benchmark tells it from other right ones.
        subset: Names of the few pictures among which the target is ranked too (CIRR).
        excluded: Names of pictures that an answer leaves out, such as the reference itself.
        candidates: Names of the pictures that are searched; None for all of the set.
        labels: Kinds of query within the benchmark; reported apart where there are several.
    """

    query_id: str
    pictures: tuple[QueryPicture, ...]
    words: tuple[str, ...]
    relevant: frozenset[str] = frozenset()
    target: str = ""
    subset: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    candidates: frozenset[str] | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComposedSet:
    """Holds a benchmark of composed queries in memory.

    Attributes:
        name: The benchmark's name, as on the command line.
        split: Part of the benchmark.
        pictures: Name -> file of the pictures that are searched. A name is a relative POSIX path, unique within the set.
        queries: Queries, in the benchmark's order.
        metrics: Metrics that are published for this benchmark, the main one first (see `composed.metrics`).
        texts: Name -> text of the picture's auxiliary modality (MUST), such as its attributes; empty where there is none.
        picture_spaces: Number of image encoders whose vectors are modalities of their own (CelebA+ has three).
        skipped: Reason -> number of rows left out.
    """

    name: str
    split: str | None
    pictures: Mapping[str, Path]
    queries: tuple[ComposedQuery, ...]
    metrics: tuple[str, ...]
    texts: Mapping[str, str] = field(default_factory=dict)
    picture_spaces: int = 1
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def has_truth(self) -> bool:
        """Return whether the right pictures are known."""
        return any(query.relevant for query in self.queries)

    def sampled(self, count: int | None, *, seed: int = 0) -> ComposedSet:
        """Return the set with at most `count` of its queries, drawn by hash: a larger sample includes a smaller one."""
        if count is None or count >= len(self.queries):
            return self

        def place(query: ComposedQuery) -> bytes:
            return hashlib.sha256(f"{seed}\0{query.query_id}".encode()).digest()

        kept = {query.query_id for query in sorted(self.queries, key=place)[:count]}
        return replace(self, queries=tuple(query for query in self.queries if query.query_id in kept))


def published_id(name: str) -> str:
    """Return the id of a picture as CIRR and CIRCO write it: the file's name without folders and ending."""
    return PurePosixPath(name).stem


def finish(
    folder: Folder,
    pictures: Mapping[str, Path],
    queries: Iterable[ComposedQuery],
    *,
    split: str | None,
    metrics: tuple[str, ...],
    texts: Mapping[str, str] | None = None,
    hidden: bool = False,
    picture_spaces: int = 1,
) -> ComposedSet:
    """Return the set without missing pictures and without queries that cannot be asked.

    Args:
        folder: Counts what is left out.
        pictures: Name -> file of the pictures that are searched.
        queries: All queries of the split.
        split: Name of the split.
        metrics: Metrics of the benchmark, the main one first.
        texts: Name -> text of the picture's auxiliary modality.
        hidden: Whether the truth of this split is not published; queries then need no right picture.
        picture_spaces: As in `ComposedSet`.

    Raises:
        NotFoundError: no picture is there.
        InvalidRequestError: no query is left.
    """
    existing = present(folder, pictures)
    narrowed: dict[int, frozenset[str]] = {}
    held: list[frozenset[str]] = []  # keeps the sets alive whose ids are keys
    there: dict[Path, bool] = dict.fromkeys(existing.values(), True)

    def narrow(names: frozenset[str]) -> frozenset[str]:
        """Return the names that exist. Queries share large sets, and each is narrowed once."""
        if id(names) not in narrowed:
            held.append(names)
            narrowed[id(names)] = names & existing.keys()
        return narrowed[id(names)]

    kept = []
    for query in queries:
        relevant = narrow(query.relevant)
        if any(len(text) > MAX_QUERY_CHARS for text in query.words):
            folder.skipped[TOO_LONG] += 1
        elif not all(there.setdefault(picture.path, picture.path.is_file()) for picture in query.pictures):
            folder.skipped[NO_REFERENCE] += 1
        elif not hidden and not relevant - query.excluded:
            folder.skipped[UNASKABLE] += 1
        else:
            candidates = None if query.candidates is None else narrow(query.candidates)
            kept.append(replace(query, relevant=relevant, candidates=candidates, subset=narrow(query.subset)))
    if not kept:
        raise InvalidRequestError(f"{folder.name}: no query is left in {str(folder.root)!r}", hint=folder.layout)
    described = {name: text for name, text in (texts or {}).items() if name in existing and text}
    return ComposedSet(folder.name, split, existing, tuple(kept), metrics, described, picture_spaces, dict(folder.skipped))
