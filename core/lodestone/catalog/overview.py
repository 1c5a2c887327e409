"""Counts of a corpus that `corpus list`, `status` and the API show."""

from __future__ import annotations

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import Corpus
from lodestone_schemas.api import CorpusInfo, RootInfo


def corpus_overview(catalog: Catalog, corpus: Corpus) -> CorpusInfo:
    """Return a corpus with its roots, the number of its searchable pictures and the number of its current failures."""
    by_root = catalog.count_by_root(corpus.corpus_id)
    return CorpusInfo(
        name=corpus.name,
        corpus_id=corpus.corpus_id,
        images=sum(by_root.values()),
        failures=catalog.count_failures(corpus_id=corpus.corpus_id),
        incomplete=catalog.count_incomplete(corpus.corpus_id),
        roots=[RootInfo(name=root.name, images=by_root.get(root.root_id, 0)) for root in catalog.roots(corpus.corpus_id)],
        created_at=corpus.created_at,
    )
