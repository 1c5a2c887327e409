"""Lookup of earlier index runs: which run is to be resumed, and what is left of it to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lodestone.catalog.records import Corpus, Run
from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.scan.interrupted_runs import BEFORE_PLANNING, KIND

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog

_LOOKED_THROUGH: Final = 10_000  # latest runs that are searched for the beginning of an id
_SHORTEST: Final = 4  # fewest characters that identify a run


@dataclass(frozen=True, slots=True)
class RunRequestRecord:
    """Work that a run has to do, for a new run or for one that is resumed.

    Attributes:
        request: What was asked for.
        discover: Whether files must be searched for.
        corpus: Corpus of the run that is resumed; None for a new run.
        run_id: Id of the run that is resumed, "" for a new run.
    """

    request: IndexRequest
    discover: bool = True
    corpus: Corpus | None = None
    run_id: str = ""

    @property
    def planned(self) -> bool:
        """Return whether every picture is in a slice already."""
        return not self.discover


class Everything:
    """Container that contains every value."""

    def __contains__(self, _: object) -> bool:
        return True


def recall(catalog: Catalog, run_id: str, *, corpus: str) -> RunRequestRecord:
    """Return what is left of a run; with `run_id` "", of the last run of the corpus.

    A run that was interrupted while it searched for files searches again; a run that got further has nothing to search for.

    Raises:
        NotFoundError: there is no such run.
        UnknownNameError: there is no such corpus, but others.
        InvalidRequestError: it was no index run, or it ended before it had found its files and has no record of where it
            looked.
    """
    if run_id:
        run = find_run(catalog, run_id)
        corpus_record = next((c for c in catalog.corpora(limit=_LOOKED_THROUGH) if c.corpus_id == run.corpus_id), None)
    else:
        if not catalog.corpora(limit=1):
            raise NotFoundError("nothing was ever indexed here: there is no run to resume", hint="lodestone index FOLDER")
        corpus_record = catalog.corpus(corpus)
        last = catalog.last_run(KIND, corpus_record.corpus_id)
        if last is None:
            raise NotFoundError(f"the corpus {corpus!r} was never indexed", hint="lodestone index FOLDER")
        run = last
    if run.kind != KIND or corpus_record is None:
        raise InvalidRequestError(
            f"run {run.run_id} is a run of {run.kind!r} and cannot be resumed", hint="`lodestone runs list` shows index runs"
        )
    request = IndexRequest.remembered({**run.request, "corpus": corpus_record.name})
    discover = run.stage in BEFORE_PLANNING
    if discover and not request.paths:
        raise InvalidRequestError(
            f"run {run.run_id} ended before it had found its files, and does not say where it looked",
            hint="name the folders: lodestone index FOLDER",
        )
    return RunRequestRecord(request, discover, corpus_record, run.run_id)


def find_run(catalog: Catalog, text: str) -> Run:
    """Return a run by its id or the beginning of its id.

    Raises:
        NotFoundError: no run matches.
        InvalidRequestError: several runs match.
    """
    try:
        return catalog.run(text)
    except NotFoundError:
        recent_runs = catalog.runs(_LOOKED_THROUGH) if len(text) >= _SHORTEST else []
    matches = [run for run in recent_runs if run.run_id.startswith(text)]
    if len(matches) > 1:
        raise InvalidRequestError(f"{len(matches)} runs begin with {text!r}", hint="give more of the id")
    if not matches:
        short = len(text) < _SHORTEST
        raise NotFoundError(
            f"there is no run {text!r}",
            hint=f"give at least {_SHORTEST} characters of its id"
            if short
            else "`lodestone runs list` shows them with their ids",
        )
    return matches[0]
