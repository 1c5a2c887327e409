"""The caller of a use case: who asks, how much of the home they see, and what they may do."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Self

from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone_schemas.access import Scope


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever asks for a use case. Everything that decides what they get is in this value.

    Attributes:
        visibility: What of the home they see, and whose queries theirs are.
        scopes: What they may do.
    """

    visibility: Visibility = EVERYTHING
    scopes: frozenset[Scope] = frozenset(Scope)

    @classmethod
    def named(cls, owner: str, scopes: Collection[Scope], corpora: frozenset[str] | None = None) -> Self:
        """Return the caller that `owner` is.

        Other people's queries, and what was learnt from them, are seen by those who see all corpora and either administer the
        home or have no name.

        Args:
            owner: Names them in records; "" where nobody has to say who they are.
            scopes: What they may do.
            corpora: Names of the corpora that they see; None: all.
        """
        all_queries = corpora is None and (owner == "" or Scope.ADMIN in scopes)
        return cls(Visibility(owner, corpora, all_queries=all_queries), frozenset(scopes))

    @property
    def owner(self) -> str:
        """Whose queries those of this caller are; "" where nobody has to say who they are."""
        return self.visibility.owner

    @property
    def sees_whole_home(self) -> bool:
        """Whether every corpus and everybody's queries are seen."""
        return self.visibility.corpora is None and self.visibility.all_queries

    def may(self, scope: Scope) -> bool:
        """Return whether this caller has the scope; `admin` holds all scopes."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


LOCAL_CALLER: Final = Caller()
"""This machine's user: sees everything, may do everything, and has no name in records."""
