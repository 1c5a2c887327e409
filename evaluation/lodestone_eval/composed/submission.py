"""Submission files of CIRR and CIRCO: written from rankings, checked, and read back to be measured where the truth is known.

CIRR's server takes two files, {"version": "rc2", "metric": "recall", "<pair>": [50 names]} and the same with the metric
recall_subset and three names. CIRCO's takes {"<query>": [50 picture numbers]}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lodestone.errors import InvalidRequestError, NotFoundError, UnknownNameError
from lodestone_eval.composed.queries import ComposedSet, published_id

SUBMITTED: Final = ("cirr", "circo")
_RESULTS: Final = 50
_OF_SUBSET: Final = 3
_VERSION: Final = "rc2"
_RECALL, _SUBSET = "recall", "recall_subset"


def write_submissions(composed: ComposedSet, rankings: Sequence[Sequence[str] | None], folder: Path) -> list[Path]:
    """Write the files that the benchmark's server takes, and return their paths.

    Args:
        composed: CIRR or CIRCO.
        rankings: One ranking of each query, of all pictures for CIRR's subsets, of 50 at least otherwise.
        folder: Where to write; it is made if it does not exist.

    Raises:
        UnknownNameError: nothing is submitted for this benchmark.
        InvalidRequestError: a query has fewer results than the server wants, or the folder cannot be written.
    """
    check_submitted(composed.name)
    if composed.name == "circo":
        files: dict[str, Mapping[str, object]] = {f"circo_{composed.split}.json": _results(composed, rankings)}
    else:
        head = {"version": _VERSION, "metric": _RECALL}
        subsets = [
            None if ranked is None else [name for name in ranked if name in query.subset]
            for query, ranked in zip(composed.queries, rankings, strict=True)
        ]
        files = {
            f"cirr_{composed.split}_recall.json": {**head, **_results(composed, rankings)},
            f"cirr_{composed.split}_recall_subset.json": {
                **head,
                "metric": _SUBSET,
                **_results(composed, subsets, wanted=_OF_SUBSET),
            },
        }
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_text(json.dumps(content), encoding="utf-8")
            paths.append(folder / name)
    except OSError as error:
        raise InvalidRequestError(
            f"cannot write into {str(folder)!r}: {error.strerror}", hint="give another folder to --submission"
        ) from error
    return paths


def check_submitted(name: str) -> None:
    """Check that the benchmark has a server.

    Raises:
        UnknownNameError: it has none.
    """
    if name not in SUBMITTED:
        raise UnknownNameError.among("benchmark with a server", name, list(SUBMITTED))


def read_submission(composed: ComposedSet, path: Path) -> tuple[list[list[str]], str]:
    """Read a submission and return the ranking of each query of the set, and what CIRR is to measure (`recall` for CIRCO).

    Raises:
        UnknownNameError: nothing is submitted for this benchmark.
        NotFoundError: there is no such file.
        InvalidRequestError: the file is no submission: what is wrong is named.
    """
    check_submitted(composed.name)
    try:
        table = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise NotFoundError(f"no file {str(path)!r}", hint="give the submission that was written") from error
    except (OSError, ValueError, RecursionError) as error:
        raise _refused(path, f"it is no JSON: {error}") from error
    if not isinstance(table, dict):
        raise _refused(path, "it is no object of query and results")
    measured = _RECALL
    if composed.name == "cirr":
        measured = table.pop("metric", None)
        if table.pop("version", None) != _VERSION or measured not in {_RECALL, _SUBSET}:
            raise _refused(path, f'it needs "version": "{_VERSION}" and "metric": "{_RECALL}" or "{_SUBSET}"')
    asked = [query.query_id for query in composed.queries]
    if missing := [query for query in asked if query not in table]:
        raise _refused(path, f"{len(missing)} of {len(asked)} queries are missing, the first is {missing[0]!r}")
    if unknown := table.keys() - set(asked):
        raise _refused(path, f"it answers {len(unknown)} queries that the split does not have, such as {min(unknown)!r}")
    wanted = _OF_SUBSET if measured == _SUBSET else _RESULTS
    names = {published_id(name): name for name in composed.pictures}
    if composed.name == "circo":
        names = {str(int(key)): name for key, name in names.items() if key.isdecimal()}
    return [_ranking(path, query, table[query], names, wanted) for query in asked], str(measured)


def _ranking(path: Path, query: str, results: Any, names: Mapping[str, str], wanted: int) -> list[str]:  # noqa: ANN401 - JSON
    if not isinstance(results, list) or not all(isinstance(result, str | int) for result in results):
        raise _refused(path, f"the results of query {query!r} are no list of pictures")
    keys = [str(result) for result in results]
    if len(keys) > wanted:
        raise _refused(path, f"query {query!r} has {len(keys)} results, and the server takes {wanted}")
    if len(set(keys)) < len(keys):
        raise _refused(path, f"query {query!r} names a picture twice")
    # A picture that is not in the collection is wrong, and its place counts.
    return [names.get(key, f"?{key}") for key in keys]


def _results(
    composed: ComposedSet, rankings: Sequence[Sequence[str] | None], *, wanted: int = _RESULTS
) -> dict[str, list[str] | list[int]]:
    results: dict[str, list[str] | list[int]] = {}
    enough = min(wanted, len(composed.pictures) - 1)
    for query, ranked in zip(composed.queries, rankings, strict=True):
        ids = [published_id(name) for name in (ranked or ())[:wanted]]
        if len(ids) < (enough if wanted == _RESULTS else min(wanted, len(query.subset))):
            raise InvalidRequestError(
                f"query {query.query_id} has {len(ids)} results, and the server wants {wanted}",
                hint="rank more pictures for each query, and look for failed ones",
            )
        results[query.query_id] = [int(key) for key in ids] if composed.name == "circo" else ids
    return results


def _refused(path: Path, problem: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"cannot use the submission {str(path)!r}: {problem}",
        hint="write it with lodestone eval must cirr --submission FOLDER (or circo)",
        path=str(path),
    )
