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
from lodestone.errors import ConfigurationError, OutOfSpaceError, StoreLockedError
from lodestone.indexing.tasks import this_worker
from lodestone.store.files import is_out_of_space


@contextmanager
def corpus_lock(home: Home, corpus: Corpus, *, catalog: Catalog | None = None) -> Iterator[None]:
    """Hold the corpus against other index runs and removals. Searching needs no lock.

    Args:
        home: Holds the lock file of this machine.
        corpus: The corpus to lock.
        catalog: Locks the corpus against other machines too, and knows which run has it.

    Raises:
        StoreLockedError: another process indexes or removes this corpus; the message names the run, host and process.
        OutOfSpaceError: the disk has no room for the lock's files.
        ConfigurationError: the home cannot be written.
    """
    path = _lock_file(home, corpus)
    note = path.with_suffix(".holder")
    with ExitStack() as held:
        with _writing(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                held.enter_context(FileLock(path, timeout=0))
            except Timeout as error:
                raise _locked_error(corpus, catalog, _read_note(note)) from error
        if catalog is not None:
            other = held.enter_context(catalog.held(f"corpus {corpus.corpus_id}", worker=this_worker()))
            if other is not None:
                raise _locked_error(corpus, catalog, other)
        held.callback(note.unlink, missing_ok=True)
        with _writing(path.parent):
            note.write_text(this_worker(), encoding="utf-8")
        yield


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Convert errors of the file system inside the block to ours."""
    try:
        yield
    except Timeout:  # an OSError too
        raise
    except OSError as error:
        if is_out_of_space(error):
            raise OutOfSpaceError(
                f"no space left for the lock of a corpus in {str(folder)!r}",
                hint="free some space and run the same command again; what was finished is kept",
            ) from error
        raise ConfigurationError(
            f"nothing can be written in {str(folder)!r}: {error.strerror or error}",
            hint="see that the home is not on a read-only disk, and that you may write in it",
        ) from error


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
