"""How do two index runs of one corpus keep out of each other's way? By an operating system lock that dies with its process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from lodestone.catalog.records import Corpus
from lodestone.config.home import Home
from lodestone.errors import StoreLockedError


@contextmanager
def corpus_lock(home: Home, corpus: Corpus) -> Iterator[None]:
    """Hold the corpus against other index runs and removals. Searching needs no lock.

    Raises:
        StoreLockedError: another process indexes or removes this corpus.
    """
    path = _lock_file(home, corpus)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise StoreLockedError(
            f"the corpus {corpus.name!r} is being indexed or removed by another process",
            hint="wait for it to finish, or stop it; nothing it has finished is lost",
            corpus=corpus.name,
        ) from error
    try:
        yield
    finally:
        lock.release()


def _lock_file(home: Home, corpus: Corpus) -> Path:
    return home.embeddings / f".{corpus.corpus_id}.lock"
