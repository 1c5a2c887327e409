"""A resolved query: what all passes read of it, and one value each for its guides, its gate and its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone.config.compositions import DEFAULT_COMPOSITION
from lodestone.query.asking.parts import Part, PartSet
from lodestone.query.asking.tree import Leaf
from lodestone.store.base import Filter
from lodestone_schemas.api import QueryNote, SearchOptions


@dataclass(frozen=True, slots=True)
class GuideOptions:
    """How a query is imagined, in words or by edits of its pictures; by default not at all.

    Attributes:
        generators: Engines to ask for guides.
        named: Whether the request itself named them.
        most: Guides at most.
        seed: Seed of the guides.
        without: Ids of guides that are drawn but not used.
        outliers: Whether guides unlike the others are left out.
        outlier_threshold: Threshold of that rule; None for the fitted one.
        adaptive: Whether guides are drawn until the first results are stable.
        budget: Most that paid generators may cost; None for no limit.
    """

    generators: tuple[str, ...] = ()
    named: bool = False
    most: int = 0
    seed: int = 0
    without: frozenset[str] = frozenset()
    outliers: bool = False
    outlier_threshold: float | None = None
    adaptive: bool = False
    budget: float | None = None


@dataclass(frozen=True, slots=True)
class GateOptions:
    """Whether simple queries stop after the text pass.

    Attributes:
        on: Whether they do.
        threshold: Least predicted average precision of a simple query; None for the model's own threshold.
    """

    on: bool = False
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class ComposeOptions:
    """What a composed query is made of; without parts, the query has one leaf.

    Attributes:
        parts: Its parts, or those of all alternatives.
        alternatives: The parts and the filter of each alternative of a query that has several; else empty.
        diversity: How much a picture loses for being like those before it, in [0, 1].
        composition: Name of the composition that answers it.
    """

    parts: tuple[Part, ...] = ()
    alternatives: tuple[PartSet, ...] = ()
    diversity: float = 0.0
    composition: str = DEFAULT_COMPOSITION


@dataclass(frozen=True, slots=True)
class ResolvedQuery:
    """A checked query with everything that its answer depends on.

    Attributes:
        query_id: Identifier of the query in events and logs.
        request: The options as they were given.
        leaves: What to look for: one leaf, or those of the parts of a composed query.
        text: Words as they are searched: in their plain form (text_encoders/plain.py), corrected where they were misspelt.
            Empty for a query that is not in words alone.
        spaces: Space -> collection of the version that the query is projected with; those that can be searched now.
        captions: Collection of captions for a query with words; None where none can be compared with them.
        tags: Collection of tags, if there is one.
        fusion: Key of `FUSIONS`; `WEIGHTED_SUM` for a composed query.
        depths: Candidates from each list, ascending: the last is searched, the others order it (see `fuse_in_tiers`).
        offset: Pictures to skip.
        limit: Pictures of the page.
        filter: The store's filter, of all alternatives; None when nothing is restricted.
        deadline: Absolute, seconds on `time.monotonic()`'s clock.
        explain: Whether each hit names the lists that contain it.
        collapse: Whether the best of known copies represents all of them.
        topic: Topic whose trust counts, if the client names one.
        trust: Whether learnt trust weighs the spaces.
        warnings: What cannot be searched, and what to do about it.
        dropped: What this query does without.
        visibility: What the caller may see.
        corrected: Whether `text` is a correction of the words that were asked.
        language: ISO 639-1 code of the language of words that are not English; None where they are, or it cannot be told.
        notes: Wishes in the words that options fulfil.
        guiding: How the query is imagined.
        gating: Whether it stops after the text pass if it is simple.
        composing: What a composed query is made of.
    """

    query_id: str
    request: SearchOptions
    leaves: tuple[Leaf, ...]
    text: str
    spaces: Mapping[str, str]
    captions: str | None
    tags: str | None
    fusion: str
    depths: tuple[int, ...]
    offset: int
    limit: int
    filter: Filter | None
    deadline: float
    explain: bool
    collapse: bool
    topic: str | None
    trust: bool
    warnings: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    visibility: Visibility = EVERYTHING
    corrected: bool = False
    language: str | None = None
    notes: tuple[QueryNote, ...] = ()
    guiding: GuideOptions = GuideOptions()
    gating: GateOptions = GateOptions()
    composing: ComposeOptions = ComposeOptions()

    @property
    def words(self) -> str:
        """The words that are looked for, of all parts; empty for a query without words."""
        wanted = [part.leaf.text for part in self.composing.parts if part.leaf.text and not part.avoid]
        return self.text or ", ".join(dict.fromkeys(wanted))

    @property
    def written(self) -> str:
        """The words as they were typed, or their correction, of all parts that are looked for: for records and people."""
        (leaf,) = self.leaves if len(self.leaves) == 1 and not self.composing.parts else (None,)
        return self.words if leaf is None else leaf.text

    @property
    def depth(self) -> int:
        """Number of candidates that are taken from each list."""
        return self.depths[-1]
