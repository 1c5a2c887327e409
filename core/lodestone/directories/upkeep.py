"""Index orders that bring a directory up to date, or repair what a consistency check found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lodestone.catalog.records import Root
from lodestone.directories.naming import corpus_names
from lodestone.directories.queue import IndexOrder, Reason, outermost

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.indexing.sync.repair import Consistency

FOLDER = "folder"


def order_for(catalog: Catalog, root: Root, *, reason: Reason, retry_failed: bool = False) -> IndexOrder:
    """Return the order that brings one directory up to date.

    Args:
        catalog: Knows the directory's corpus.
        root: The directory.
        reason: Reason for the order, shown to people.
        retry_failed: Whether unchanged files that failed before are tried again.
    """
    return IndexOrder(corpus_names(catalog)[root.corpus_id], (root.path,), reason=reason, retry_failed=retry_failed)


def repair_orders(catalog: Catalog, found: Consistency) -> list[IndexOrder]:
    """Return the orders that repair what a consistency check found.

    There is one order per corpus, with the affected directories that can be reached.
    """
    indexed = [finding for finding in found.findings if finding.remedy == "index"]
    affected_roots = {finding.root_id for finding in indexed if finding.root_id}
    affected_corpora = {finding.corpus_id for finding in indexed if not finding.root_id}
    roots = [
        root
        for root in catalog.roots(None)
        if root.root_id in affected_roots or root.corpus_id in affected_corpora or "" in affected_corpora
    ]
    orders = _orders(catalog, roots)
    names, scanned = corpus_names(catalog), {order.corpus for order in orders}
    resumed = {names[finding.corpus_id] for finding in found.findings if finding.remedy == "resume"} - scanned
    return [*orders, *(IndexOrder(name, (), reason="repair", resume=True) for name in sorted(resumed))]


def _orders(catalog: Catalog, roots: list[Root]) -> list[IndexOrder]:
    names = corpus_names(catalog)
    paths: dict[str, list[str]] = {}
    for root in roots:
        if root.kind != FOLDER or Path(root.path).is_dir():
            paths.setdefault(root.corpus_id, []).append(root.path)
    return [IndexOrder(names[corpus_id], outermost(root_paths), reason="repair") for corpus_id, root_paths in paths.items()]
