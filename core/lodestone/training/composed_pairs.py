"""File of composed queries with the pictures that are right for them, from which weights of modalities are learnt.

A line is a JSON object:

    {"reference": "photos/beach.jpg", "words": "at night", "without": "people", "target": "photos/harbour.jpg"}

`reference` is a picture: the id or the name of an indexed one, or the path of a file, relative to the table's folder.
`words` and `without` say what to look for and what to avoid. At least one of the three is given. `target` names the right
picture, which is indexed, or is a list of several. Lines with the same query are one query with several right pictures.
`vectors` may give the vector of a modality itself, made elsewhere by the version that is searched: {"MODALITY": [number, …]}.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from lodestone.errors import InvalidRequestError
from lodestone.text_encoders.text import normalise_query

_KEYS: Final = frozenset({"reference", "words", "without", "target", "vectors"})
_HINT: Final = 'one JSON object a line: {"reference": "a.jpg", "words": "at night", "target": "b.jpg"}'


@dataclass(frozen=True, slots=True)
class ComposedPair:
    """One composed query and the names of the pictures that are right for it.

    Attributes:
        line: Line of the file, from 1; of the first one if several lines have this query.
        reference: Name of the reference picture; None without.
        words: What to look for; empty without.
        without: What to avoid; empty without.
        vectors: Modality -> vector that was given.
        targets: Names of the right pictures, at least one.
        query_id: Recorded query that it is of; empty for a line of a file.
    """

    line: int
    reference: str | None
    words: str
    without: str
    targets: tuple[str, ...]
    vectors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    query_id: str = ""

    @property
    def origin(self) -> str:
        """Return where the query is from, as messages say it."""
        return f"query {self.query_id}" if self.query_id else f"line {self.line}"

    @property
    def key(self) -> tuple[object, ...]:
        """Return what two lines have in common if they are one query."""
        return (self.reference, self.words, self.without, tuple(sorted(self.vectors.items())))


def read_pairs(path: Path, modalities: Sequence[str] = ()) -> list[ComposedPair]:
    """Return the queries of a file, each once.

    Args:
        path: The file.
        modalities: Those that `vectors` may name.

    Raises:
        InvalidRequestError: the file cannot be read or holds no pair; or a line is no such object, has an unknown key or
            modality, neither picture nor words, no target, or a number that is not finite. The line is named.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"cannot read the pairs {str(path)!r}: {error}", hint=_HINT) from error
    lines = enumerate(text.splitlines(), 1)
    queries = merged(_parsed(line, number, path, modalities) for number, line in lines if line.strip())
    if not queries:
        raise InvalidRequestError(f"there is no pair in {str(path)!r}", hint=_HINT)
    return queries


def merged(pairs: Iterable[ComposedPair]) -> list[ComposedPair]:
    """Return the queries, each once, with the right pictures of all pairs that have it."""
    queries: dict[tuple[object, ...], ComposedPair] = {}
    for pair in pairs:
        known = queries.get(pair.key)
        if known is None:
            queries[pair.key] = pair
        else:
            queries[pair.key] = replace(known, targets=tuple(dict.fromkeys((*known.targets, *pair.targets))))
    return list(queries.values())


def _parsed(line: str, number: int, path: Path, modalities: Sequence[str]) -> ComposedPair:
    def refuse(reason: str, hint: str = _HINT) -> InvalidRequestError:
        return InvalidRequestError(f"{path.name}, line {number}: {reason}", hint=hint, line=number)

    try:
        content = json.loads(line)
    except ValueError as error:
        raise refuse(f"not JSON: {error}") from error
    if not isinstance(content, dict):
        raise refuse(f"a {type(content).__name__}, not an object")
    if unknown := sorted(content.keys() - _KEYS):
        raise refuse(f"unknown key {unknown[0]!r}", f"the keys are {', '.join(sorted(_KEYS))}")
    values = {key: content.get(key) or "" for key in ("reference", "words", "without")}
    for key, value in values.items():
        if not isinstance(value, str):
            raise refuse(f"{key!r} is a {type(value).__name__}, not a string")
    targets = content.get("target") or []
    targets = [targets] if isinstance(targets, str) else targets
    if not isinstance(targets, list) or not targets or not all(isinstance(one, str) and one for one in targets):
        raise refuse("'target' names no picture", 'give its id or name, or several: ["a.jpg", "b.jpg"]')
    vectors = _vectors(content.get("vectors") or {}, refuse, modalities)
    if not any(values.values()) and not vectors:
        raise refuse("a query with neither a picture nor words", "give at least one of reference, words and without")
    words, without = (normalise_query(values[key]) if values[key].strip() else "" for key in ("words", "without"))
    if without and not (values["reference"] or words or vectors):
        raise refuse("a query that only says what to avoid", "say what to look for, too")
    return ComposedPair(number, values["reference"] or None, words, without, tuple(dict.fromkeys(targets)), vectors)


def _vectors(given: Any, refuse: Any, modalities: Sequence[str]) -> dict[str, tuple[float, ...]]:  # noqa: ANN401
    if not isinstance(given, dict):
        raise refuse("'vectors' is no object", '{"MODALITY": [number, …]}')
    vectors = {}
    for modality, numbers in given.items():
        if modality not in modalities:
            raise refuse(f"the composition has no modality {modality!r}", f"it has {', '.join(modalities)}")
        real = isinstance(numbers, list) and all(isinstance(one, int | float) and math.isfinite(one) for one in numbers)
        if not real or not any(numbers):
            raise refuse(f"the vector of {modality!r} is no list of finite numbers, not all 0", "leave the modality out")
        vectors[modality] = tuple(map(float, numbers))
    return vectors
