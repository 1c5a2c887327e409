"""Lock of a corpus: it keeps two index runs of one corpus apart, and is released when its process ends.

On one machine it is a lock of the operating system. Where the catalog is on a server, whose other clients may be on other
machines, a lock of that server is taken as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import Corpus, RunState
from lodestone.config.home import Home
from lodestone.errors import StoreLockedError
from lodestone.indexing.tasks import this_worker


@contextmanager
def corpus_lock(home: Home, corpus: Corpus, *, catalog: Catalog | None = None) -> Iterator[None]:
    """Hold the corpus against other index runs and removals. Searching needs no lock.

    Args:
        home: Holds the lock file of this machine.
        corpus: The corpus to lock.
        catalog: Locks the corpus against other machines too, and knows which run has it.

    Raises:
        StoreLockedError: another process indexes or removes this corpus; the message names the run, host and process.
    """
    path = _lock_file(home, corpus)
    path.parent.mkdir(parents=True, exist_ok=True)
    note = path.with_suffix(".holder")
    with ExitStack() as held:
        try:
            held.enter_context(FileLock(path, timeout=0))
        except Timeout as error:
            raise _locked_error(corpus, catalog, _read_note(note)) from error
        if catalog is not None:
            other = held.enter_context(catalog.held(f"corpus {corpus.corpus_id}", worker=this_worker()))
            if other is not None:
                raise _locked_error(corpus, catalog, other)
        note.write_text(this_worker(), encoding="utf-8")
        held.callback(note.unlink, missing_ok=True)
        yield


def _locked_error(corpus: Corpus, catalog: Catalog | None, worker: str) -> StoreLockedError:
    """Return the error that names the process that has the corpus (`worker`: `host:pid`, or empty) and its run."""
    running = catalog.runs(corpus_id=corpus.corpus_id, state=RunState.RUNNING) if catalog is not None else []
    run = next((run for run in running if not worker or run.worker == worker), None)
    who = worker or (run.worker if run is not None else "") or "one that does not say which"
    if run is not None:
        who = f"run {run.run_id} ({run.kind}) of {who}, since {run.started_at:%Y-%m-%d %H:%M:%S} UTC"
    how = "" if run is None else f" (lodestone runs cancel {run.run_id[:8]})"
    return StoreLockedError(
        f"the corpus {corpus.name!r} is being indexed or removed by another process: {who}",
        hint=f"wait for it to finish, or stop it{how}; nothing it has finished is lost",
        corpus=corpus.name,
        worker=worker,
        **({} if run is None else {"run_id": run.run_id}),
    )


def _read_note(note: Path) -> str:
    """Return the `host:pid` that the note names; empty when the note does not exist yet."""
    with suppress(FileNotFoundError):
        return note.read_text(encoding="utf-8").strip()
    return ""


def _lock_file(home: Home, corpus: Corpus) -> Path:
    return home.embeddings / f".{corpus.corpus_id}.lock"
