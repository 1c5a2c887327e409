"""Judgements of which pictures are right for which queries: from a file, and from users' feedback on recorded answers.

A file is a table with the columns `query` and `file` (one row per right picture; tab-separated, `.csv` comma-separated), or
JSON: `{"query": ["file", …], …}`. A file is named by its path inside its root, by its bare name where only one picture has it,
or by the picture's id.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from lodestone.errors import InvalidRequestError, LodestoneError
from lodestone.query.deciding.gate import Method, features
from lodestone.query_log.trace import Trace, load_trace
from lodestone.retrieval.fusion import TEXT_GUIDE, find_fusion
from lodestone.retrieval.metrics import average_precision
from lodestone.sources.uris import name_of
from lodestone.spaces.names import CAPTIONS
from lodestone.text_encoders.text import normalise_query
from lodestone.training.complexity import Observation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lodestone.catalog.catalog import Catalog

_HEADER: Final = ["query", "file"]
_PAGE: Final = 500
_HINT: Final = 'a table with the columns query and file, or JSON: {"query": ["file", ...]}'


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """Holds a query's text and the ids of all pictures that are right for it, at least one."""

    text: str
    relevant: frozenset[str]


def read_judgements(path: Path) -> dict[str, list[str]]:
    """Return query -> names of right pictures, as the file has them.

    Raises:
        InvalidRequestError: the file cannot be read, has neither form, or holds no judgement; for tables the line is named.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"cannot read the judgements {path}: {error}", hint=_HINT) from error
    judgements = _from_json(text, path) if path.suffix.lower() == ".json" else _from_table(text, path)
    if not judgements:
        raise InvalidRequestError(f"there is no judgement in {path}", hint=_HINT)
    return judgements


def resolve(judgements: Mapping[str, Sequence[str]], catalog: Catalog) -> tuple[list[JudgedQuery], list[str]]:
    """Return the judgements on pictures of this home, and the names that no picture has, sorted. Blocking.

    A query without a picture in this home is left out.

    Raises:
        InvalidRequestError: a query has no words.
    """
    wanted = {name for names in judgements.values() for name in names}
    ids = ids_of_names(wanted, catalog)
    judged: dict[str, set[str]] = {}
    for text, names in judgements.items():
        judged.setdefault(normalise_query(text), set()).update(ids[name] for name in names if name in ids)
    return [JudgedQuery(text, frozenset(image_ids)) for text, image_ids in judged.items() if image_ids], sorted(
        wanted - ids.keys()
    )


def precision_of(ids: Sequence[str], relevant: frozenset[str]) -> float:
    """Return the average precision of a ranking; right pictures that it does not hold count as never found."""
    hits = np.array([[image_id in relevant for image_id in ids]], bool)
    return float(average_precision(hits, totals=np.array([len(relevant)]))[0])


def observations_of_feedback(catalog: Catalog) -> Iterator[Observation]:
    """Yield what users' feedback on recorded answers says about the gate; queries that are no longer recorded are left out.

    Only pictures that were called right count as right, because a user has not seen all others. Blocking.
    """
    for query_id, relevant in judged_answers(catalog):
        try:
            trace = load_trace(catalog, query_id)
        except LodestoneError:
            continue  # the query's record was deleted (query.history), or has an older format
        if relevant and trace.kind == "words" and (observation := _observed(trace, relevant)) is not None:
            yield observation


def judged_answers(catalog: Catalog) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each query that has feedback, and the pictures that were called right and never wrong. Blocking."""
    judged: dict[str, tuple[set[str], set[str]]] = {}
    offset = 0
    while page := catalog.feedback(offset, _PAGE):
        for feedback in page:
            right, wrong = judged.setdefault(feedback.query_id, (set(), set()))
            right.update(feedback.relevant)
            wrong.update(feedback.irrelevant)
        offset += len(page)
    for query_id, (right, wrong) in sorted(judged.items()):
        yield query_id, frozenset(right - wrong)


def _observed(trace: Trace, relevant: frozenset[str]) -> Observation | None:
    # The captions' list belongs to the guided stage; its scores are no cosines, which the gate's features are made of.
    text = [ranked_list for ranked_list in trace.lists if ranked_list.guide == TEXT_GUIDE and ranked_list.space != CAPTIONS]
    if not any(ranked_list.ids for ranked_list in text):
        return None
    values = dict(trace.gate.features) if trace.gate is not None else {}
    values = values or features([Method(ranked_list.space, ranked_list.ids, ranked_list.scores) for ranked_list in text])
    ranked = find_fusion(trace.fusion)(text)
    guided = precision_of(trace.ranking.ids, relevant) if trace.stage == "guides" else None
    return Observation(values, precision_of(ranked.ids, relevant), guided, trace.text)


def ids_of_names(names: set[str], catalog: Catalog) -> dict[str, str]:
    """Return name -> picture id; names that no picture, or several pictures, have are left out."""
    by_id = {image_id: image_id for image_id in catalog.images(names)}
    by_uri: dict[str, set[str]] = {}
    for root in catalog.roots(None):
        for record in catalog.images_of_root(root.root_id):
            for name in {record.uri, name_of(record.uri)} & names:
                by_uri.setdefault(name, set()).add(record.image_id)
    return by_id | {name: next(iter(ids)) for name, ids in by_uri.items() if len(ids) == 1}


def _from_json(text: str, path: Path) -> dict[str, list[str]]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InvalidRequestError(f"the judgements {path} are not JSON: {error}", hint=_HINT) from error
    if not isinstance(content, dict) or not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in content.values()
    ):
        raise InvalidRequestError(f"the judgements {path} are not lists of file names by query", hint=_HINT)
    return {query: names for query, names in content.items() if names}


def _from_table(text: str, path: Path) -> dict[str, list[str]]:
    lines = text.splitlines()
    is_csv = path.suffix.lower() == ".csv"
    rows = csv.reader(lines) if is_csv else csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    judgements: dict[str, list[str]] = {}
    try:
        header = [cell.strip().lower() for cell in next(rows, [])]
        if header != _HEADER:
            raise InvalidRequestError(f"judgements {path}, line 1: the header is {header!r}, not query and file", hint=_HINT)
        for row in rows:
            if len(row) != len(_HEADER) or not all(cell.strip() for cell in row):
                if row:
                    raise InvalidRequestError(f"judgements {path}, line {rows.line_num}: expected query and file", hint=_HINT)
                continue
            judgements.setdefault(row[0].strip(), []).append(row[1].strip())
    except csv.Error as error:
        raise InvalidRequestError(f"judgements {path}, line {rows.line_num}: {error}", hint=_HINT) from error
    return judgements
