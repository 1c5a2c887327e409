"""How much does each space count for this query? A name is best found by label matching, a sentence by the bridge.

The trust in label matching is a sigmoid of the query's highest similarity to a class name: near 1 where the words name
a class, near 0 where they say something that a classifier cannot see. The bridge has the rest; any further space counts
as much as these two together. Scores of different spaces are made comparable by their scale: the standard deviation of
a query's scores over pictures that do not answer it. Middle, slope and scales are fitted on validation data
(learn/trust.py) and travel in the bridge's file.

Use: `final(picture) = sum over spaces of weights[s] * score_s(picture) / scale(s)` over the union of the spaces' candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

LABELS: Final = "labels"
BRIDGE: Final = "bridge"


@dataclass(frozen=True, slots=True)
class SpaceWeights:
    """Fitted parameters of the weights; immutable.

    Attributes:
        middle: Similarity (cosine) at which label matching and the bridge count equally, between `floor` and `ceiling`.
        slope: Steepness of the sigmoid, per unit of cosine.
        floor: Least trust in label matching, in [0, 1].
        ceiling: Most trust in label matching, in [floor, 1].
        scales: Space name -> standard deviation of its scores, > 0.
    """

    middle: float = 0.65
    slope: float = 15.0
    floor: float = 0.0
    ceiling: float = 1.0
    scales: Mapping[str, float] = field(default_factory=dict)

    def label_trust(self, similarity: float) -> float:
        """Trust in label matching, in [floor, ceiling], for a query whose nearest class name has this cosine."""
        # beyond +-40 the sigmoid is 0 or 1 to double precision, and exp would overflow for absurd slopes
        exponent = min(max(-self.slope * (similarity - self.middle), -40.0), 40.0)
        return self.floor + (self.ceiling - self.floor) / (1.0 + math.exp(exponent))

    def weigh(self, similarity: float, spaces: Iterable[str]) -> dict[str, float]:
        """Weights of `spaces` for one query; they sum to 1.

        A space that is missing (a profile without the bridge, say) leaves its share to the others.

        Args:
            similarity: The query's highest cosine to a class name (`LabelSpace.label_similarity`).
            spaces: The names of the spaces that are searched, any order; an empty one gives an empty dict.
        """
        trust = self.label_trust(similarity)
        raw = {space: {LABELS: trust, BRIDGE: 1.0 - trust}.get(space, 1.0) for space in spaces}
        total = sum(raw.values())
        if total <= 0:  # the only space searched is one that has no trust at all: it is all there is
            return {space: 1.0 / len(raw) for space in raw}
        return {space: weight / total for space, weight in raw.items()}

    def scale(self, space: str) -> float:
        """What to divide a space's scores by; for a space that was not fitted, the mean of those that were, else 1."""
        if space in self.scales:
            return self.scales[space]
        return sum(self.scales.values()) / len(self.scales) if self.scales else 1.0

    def to_header(self) -> dict[str, Any]:
        """JSON-serialisable form for the bridge's file."""
        return asdict(self)

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> SpaceWeights:
        """The inverse of `to_header`; an empty mapping gives the defaults."""
        return cls(**header)
