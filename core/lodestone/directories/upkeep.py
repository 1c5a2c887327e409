"""What has to be indexed so that a directory, or all that a consistency check found, is up to date again?"""

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


def order_for(catalog: Catalog, root: Root, *, reason: Reason) -> IndexOrder:
    """The order that brings one directory up to date."""
    return IndexOrder(corpus_names(catalog)[root.corpus_id], (root.path,), reason=reason)


def repair_orders(catalog: Catalog, found: Consistency) -> list[IndexOrder]:
    """What an index run has to put right: one order a corpus, of the directories concerned that can be reached."""
    indexed = [finding for finding in found.findings if finding.remedy == "index"]
    named = {finding.root_id for finding in indexed if finding.root_id}
    whole = {finding.corpus_id for finding in indexed if not finding.root_id}
    wanted = [root for root in catalog.roots(None) if root.root_id in named or root.corpus_id in whole or "" in whole]
    orders = _orders(catalog, wanted)
    names, looked_through = corpus_names(catalog), {order.corpus for order in orders}
    resumed = {names[finding.corpus_id] for finding in found.findings if finding.remedy == "resume"} - looked_through
    return [*orders, *(IndexOrder(name, (), reason="repair", resume=True) for name in sorted(resumed))]


def _orders(catalog: Catalog, roots: list[Root]) -> list[IndexOrder]:
    names = corpus_names(catalog)
    paths: dict[str, list[str]] = {}
    for root in roots:
        if root.kind != FOLDER or Path(root.path).is_dir():
            paths.setdefault(root.corpus_id, []).append(root.path)
    return [IndexOrder(names[corpus_id], outermost(found), reason="repair") for corpus_id, found in paths.items()]
