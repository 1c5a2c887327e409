"""Renaming of a corpus: in the catalog, in the keys that name it, and in the record beside its Parquet files.

Pictures, vectors and thumbnails are kept under the id of their corpus, so nothing is read or embedded again.
"""

from __future__ import annotations

from dataclasses import dataclass

from lodestone.catalog.records import Corpus
from lodestone.embeddings.corpus_records import write_corpus_record
from lodestone.errors import InvalidRequestError
from lodestone.indexing.locking import corpus_lock
from lodestone.indexing.sync.collections import SyncResources


@dataclass(frozen=True, slots=True)
class RenamingReport:
    """What was renamed.

    Attributes:
        corpus: The corpus under its new name.
        keys: Ids of the keys that named it, and have its new name now.
    """

    corpus: Corpus
    keys: tuple[str, ...]


def rename_corpus(resources: SyncResources, name: str, new: str) -> RenamingReport:
    """Call the corpus `name` from now on `new`.

    Raises:
        UnknownNameError: there is no such corpus.
        InvalidRequestError: the new name cannot be used; see `Catalog.rename_corpus`. Or the setting `serve.index_folders`
            names one of the two, and would let other folders be added than before.
        StoreLockedError: an index run of the corpus is going on: it knows the corpus by its old name.
    """
    catalog = resources.catalog
    corpus = catalog.corpus(name)
    folders = resources.settings.serve.index_folders
    if named := [each for each in (name, new) if each in folders and name != new]:
        raise InvalidRequestError(
            f"the setting serve.index_folders names the corpus {named[0]!r}",
            hint="take it out of the settings, rename the corpus, and name it there again",
        )
    with corpus_lock(resources.home, corpus, catalog=catalog):
        renamed, keys = catalog.rename_corpus(corpus.corpus_id, new)
        write_corpus_record(resources.embeddings, renamed, catalog.roots(corpus.corpus_id))
    return RenamingReport(renamed, tuple(keys))
