"""Which run is meant, and what is left of it to do?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from lodestone.catalog.records import Corpus, Run, RunState
from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone.indexing.progress import RunStage
from lodestone.indexing.run.report import IndexRequest

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog

KIND: Final = "index"
_LOOKED_THROUGH: Final = 10_000  # runs, latest first, among which the beginning of an id is looked for
_IN_A_ROW: Final = 1000  # runs that were cut short one after the other
_SHORTEST: Final = 4  # characters of an id
_BEFORE_PLANNING: Final = frozenset({"", RunStage.DISCOVER.value})


@dataclass(frozen=True, slots=True)
class RunRequestRecord:
    """What a run has to do.

    Attributes:
        request: What was asked for.
        discover: Whether files must be looked for.
        corpus: Of the run that is resumed; None for a new run.
        run_id: The run that is resumed, "" for none.
    """

    request: IndexRequest
    discover: bool = True
    corpus: Corpus | None = None
    run_id: str = ""

    @property
    def planned(self) -> bool:
        """Whether every picture is in a slice already."""
        return not self.discover


def cut_short_since(catalog: Catalog, run_id: str) -> datetime | None:
    """When the first of the runs began that were cut short one after the other, looking for files, just before this one.

    None: the one before it had looked at all its files.
    """
    since = None
    corpora = [corpus_id] if (corpus_id := catalog.run(run_id).corpus_id) else []
    for _, run in catalog.run_page(limit=_IN_A_ROW, corpus_ids=corpora, kind=KIND):
        if run.run_id == run_id:
            continue
        if run.state is RunState.DONE or run.stage not in _BEFORE_PLANNING:
            break
        since = run.started_at
    return since


class Everything:
    """A container that holds whatever it is asked for."""

    def __contains__(self, _: object) -> bool:
        return True


def recall(catalog: Catalog, run_id: str, *, corpus: str) -> RunRequestRecord:
    """What is left of a run, or of the last one of a corpus (`run_id` is "").

    One that was cut short while it looked for files looks again; a later one has nothing to look for.

    Raises:
        NotFoundError: there is no such run.
        UnknownNameError: there is no such corpus.
        InvalidRequestError: it was no index run, or it was cut short before it had found its files and does not say which.
    """
    if run_id:
        run = find_run(catalog, run_id)
        found = next((c for c in catalog.corpora(limit=_LOOKED_THROUGH) if c.corpus_id == run.corpus_id), None)
    else:
        found = catalog.corpus(corpus)
        last = catalog.last_run(KIND, found.corpus_id)
        if last is None:
            raise NotFoundError(f"the corpus {corpus!r} was never indexed", hint="lodestone index FOLDER")
        run = last
    if run.kind != KIND or found is None:
        raise InvalidRequestError(
            f"run {run.run_id} is a run of {run.kind!r} and cannot be resumed", hint="`lodestone runs list` shows index runs"
        )
    request = IndexRequest.remembered({**run.request, "corpus": found.name})
    discover = run.stage in _BEFORE_PLANNING
    if discover and not request.paths:
        raise InvalidRequestError(
            f"run {run.run_id} ended before it had found its files, and does not say where it looked",
            hint="name the folders: lodestone index FOLDER",
        )
    return RunRequestRecord(request, discover, found, run.run_id)


def find_run(catalog: Catalog, text: str) -> Run:
    """A run by its id or the beginning of it.

    Raises:
        NotFoundError: there is none.
        InvalidRequestError: several begin so.
    """
    try:
        return catalog.run(text)
    except NotFoundError:
        among = catalog.runs(_LOOKED_THROUGH) if len(text) >= _SHORTEST else []
    found = [run for run in among if run.run_id.startswith(text)]
    if len(found) > 1:
        raise InvalidRequestError(f"{len(found)} runs begin with {text!r}", hint="give more of the id")
    if not found:
        short = len(text) < _SHORTEST
        raise NotFoundError(
            f"there is no run {text!r}",
            hint=f"give at least {_SHORTEST} characters of its id"
            if short
            else "`lodestone runs list` shows them with their ids",
        )
    return found[0]
