"""Visibility: which corpora and which recorded queries a caller may see.

Corpora are the tenants of a home. A restriction to some of them becomes a condition of the store's filter in every search, so
pictures of other tenants never take part in ranking, fusion, guides or counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass

from lodestone.errors import NotFoundError, UnknownNameError

MAX_CORPORA = 100  # most corpora that the filter of a search may name


@dataclass(frozen=True, slots=True)
class Visibility:
    """Visibility of one caller: the parts of a home that the caller sees.

    Attributes:
        owner: Owner of the queries that this caller asks; "" where callers are not identified.
        corpora: Names of the visible corpora, existing or not; None means all, also future ones.
        all_queries: True if the queries of all callers, and what was learnt from them, are visible; otherwise only the owner's
            are.
    """

    owner: str = ""
    corpora: frozenset[str] | None = None
    all_queries: bool = True

    def sees(self, corpus: str) -> bool:
        """Return True if the corpus of that name is visible."""
        return self.corpora is None or corpus in self.corpora

    def covers(self, corpora: Collection[str] | None) -> bool:
        """Return True if results found within `corpora` (None means all) are visible now."""
        return self.corpora is None or (corpora is not None and self.corpora.issuperset(corpora))

    def owns(self, owner: str) -> bool:
        """Return True if a query that `owner` asked is visible."""
        return self.all_queries or owner == self.owner

    @property
    def tenant(self) -> str:
        """Return a key that all callers who see the same corpora share; "" for callers who see every corpus.

        Guides are reused only among queries with the same key.
        """
        if self.corpora is None:
            return ""
        return hashlib.sha256("\0".join(sorted(self.corpora)).encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def unknown_corpus(self, name: str, present: Collection[str]) -> UnknownNameError:
        """Build the error for a corpus that is missing or not visible, the same for both; it lists only visible corpora."""
        return UnknownNameError.among("corpus", name, [corpus for corpus in present if self.sees(corpus)])


EVERYTHING = Visibility()
"""Visibility of this machine's user, and of every caller where no key is required."""


def no_query(query_id: str) -> NotFoundError:
    """Build the error for a query that is not recorded or not visible, the same for both."""
    return NotFoundError(
        f"no query {query_id!r} is recorded",
        hint="take query_id from an answer; the setting query.history says how many are kept",
        query_id=query_id,
    )
