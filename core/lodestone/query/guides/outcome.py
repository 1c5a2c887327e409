"""Outcome of the guides of one query: what came, what was judged, and the ranking that they led to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lodestone.generators.base import Guide
from lodestone.query.guides.captions import CaptionMatches
from lodestone.query.guides.outliers import OutlierReport
from lodestone.retrieval.rescoring import ListSearch
from lodestone.retrieval.searcher import Found, Ranking

GuideVectors = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class GuideOutcome:
    """Everything about the guides of one query so far; each step of the guide stage returns a new one.

    Attributes:
        guides: All guides that came, in order.
        vectors: Guide id -> collection -> (dim,) float32.
        found: Guide id -> its lists, not weighted yet.
        judged: Report of the outlier filter about `guides`, in order; None while nothing was judged.
        dropped: Ids of guides for which there was no time.
        ranking: Text pass and guides fused; None while no guide counts.
        searches: The weighted searches of the guides in `ranking`.
        stopped: Why drawing ended early; empty if it did not.
        captions: What captions say about the candidates; None without captions.
        space_weights: Space -> weight in `ranking`; None: as in the first pass.
    """

    guides: tuple[Guide, ...] = ()
    vectors: Mapping[str, GuideVectors] = field(default_factory=dict)
    found: Mapping[str, Found] = field(default_factory=dict)
    judged: OutlierReport | None = None
    dropped: frozenset[str] = frozenset()
    ranking: Ranking | None = None
    searches: tuple[ListSearch, ...] = ()
    stopped: str = ""
    captions: CaptionMatches | None = None
    space_weights: Mapping[str, float] | None = None

    @property
    def rejected(self) -> frozenset[str]:
        """Ids of guides that are unlike the others."""
        return frozenset() if self.judged is None else rejected_ids(self.guides, self.judged)

    @property
    def lists_searched(self) -> int:
        """Number of (guide, space) lists that were searched."""
        return sum(len(found.lists) for found in self.found.values())

    @property
    def unsearched(self) -> list[Guide]:
        """Guides that have vectors, were not searched yet and were not dropped."""
        settled = self.found.keys() | self.dropped
        return [guide for guide in self.guides if guide.guide_id in self.vectors and guide.guide_id not in settled]

    def with_guides(self, batch: Sequence[Guide]) -> GuideOutcome:
        """Return the outcome with new guides, which count as dropped until their vectors are known."""
        ids = {guide.guide_id for guide in batch}
        return replace(self, guides=(*self.guides, *batch), dropped=self.dropped | ids)

    def with_vectors(self, vectors: Mapping[str, GuideVectors]) -> GuideOutcome:
        """Return the outcome with the vectors of guides: guide id -> collection -> vector."""
        return replace(self, vectors={**self.vectors, **vectors}, dropped=self.dropped - vectors.keys())

    def with_found(self, found: Mapping[str, Found]) -> GuideOutcome:
        """Return the outcome with the lists of guides: guide id -> lists."""
        return replace(self, found={**self.found, **found})


def rejected_ids(guides: Sequence[Guide], judged: OutlierReport) -> frozenset[str]:
    """Return the ids of the guides that a report rejects; guides that came after it are not among them."""
    return frozenset(guide.guide_id for guide, rejected in zip(guides, judged.rejected, strict=False) if rejected)
