"""How much of a home does somebody see? Some corpora or all, their own queries or everybody's.

Corpora are the tenants of a home. A restriction to some of them is a condition of the store's filter in every search, and so
nothing that is ranked, fused, imagined or counted for one tenant has ever seen a picture of another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass

from lodestone.errors import NotFoundError, UnknownNameError

MAX_CORPORA = 100  # as many as a filter of a search may name


@dataclass(frozen=True, slots=True)
class Visibility:
    """What of a home somebody sees.

    Attributes:
        owner: Whose queries those asked with it are; "" where nobody has to say who they are.
        corpora: Names of the corpora that are seen, there or not; None: all, also those to come.
        all_queries: Whether everybody's queries are seen, and what was learnt from them; else the owner's alone.
    """

    owner: str = ""
    corpora: frozenset[str] | None = None
    all_queries: bool = True

    def sees(self, corpus: str) -> bool:
        """Whether the corpus of that name is seen."""
        return self.corpora is None or corpus in self.corpora

    def covers(self, corpora: Collection[str] | None) -> bool:
        """Whether what was found within `corpora` (None: all) is seen now."""
        return self.corpora is None or (corpora is not None and self.corpora.issuperset(corpora))

    def owns(self, owner: str) -> bool:
        """Whether a query that `owner` asked is seen."""
        return self.all_queries or owner == self.owner

    @property
    def tenant(self) -> str:
        """Names those who share what was imagined for their queries; "" for all who see every corpus."""
        if self.corpora is None:
            return ""
        return hashlib.sha256("\0".join(sorted(self.corpora)).encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def unknown_corpus(self, name: str, present: Collection[str]) -> UnknownNameError:
        """What is said of a corpus that is not there or not seen, the same for both: names no others."""
        return UnknownNameError.among("corpus", name, [one for one in present if self.sees(one)])


EVERYTHING = Visibility()
"""Of this machine's user, and of everybody where nobody is asked for a key."""


def no_query(query_id: str) -> NotFoundError:
    """What is said of a query that is not recorded or not seen, the same for both."""
    return NotFoundError(
        f"no query {query_id!r} is recorded",
        hint="take query_id from an answer; the setting query.history says how many are kept",
        query_id=query_id,
    )
