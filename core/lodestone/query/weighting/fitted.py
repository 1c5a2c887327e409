"""Fitted weights of spaces: a name is best found by label matching, a familiar sentence by the bridge.

Two signs show that label matching deserves trust: the words are close to a class name and some picture really matches them
(on drawings none does), or the words are far from everything the bridge was taught (a caption about things that its training
never showed). Either one raises its share along a sigmoid, up to a ceiling. Words that are nothing but a class name ("owl",
"a photo of an owl") get mostly label matching, if some picture matches them. The bridge has the rest, and any further space
counts as much as these two together. Scores of different spaces are made comparable by their scale. The parameters are fitted
on validation data (research/fits/space_weights.py) and travel in the bridge's file.

Use: `final(picture) = sum over spaces of weights[s] * score_s(picture) / scale(s)` over the union of the spaces' candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lodestone.spaces.names import BRIDGE, LABELS


@dataclass(frozen=True, slots=True)
class SpaceWeights:
    """Fitted parameters of the weights, which never change.

    Attributes:
        middle: Similarity (cosine) to a class name at which half of `named` is given.
        slope: Steepness of that sigmoid, per unit of cosine.
        named: Share of label matching that a class name earns.
        evidence_middle: Best cosine of a picture in label matching at which half of what the name earned is kept.
        evidence_slope: Steepness of that sigmoid, per unit of cosine.
        strange_middle: Familiarity (cosine to what the bridge was taught) at which half of `strange` is given.
        strange_slope: Steepness of that sigmoid, per unit of cosine.
        strange: Share of label matching that unfamiliar words earn.
        floor: Least share of label matching, in [0, 1].
        ceiling: Most share of label matching for words that are more than a class name, in [floor, 1].
        bare: Share of label matching that nothing but a class name earns, in [0, 1].
        bare_middle: Similarity (cosine) to a form of a class name at which half of `bare` is given.
        bare_slope: Steepness of that sigmoid, per unit of cosine.
        scales: Space name -> standard deviation of its scores, > 0.
    """

    middle: float = 0.7
    slope: float = 25.0
    named: float = 0.35
    evidence_middle: float = 0.45
    evidence_slope: float = 20.0
    strange_middle: float = 0.4
    strange_slope: float = 15.0
    strange: float = 0.15
    floor: float = 0.03
    ceiling: float = 0.5
    bare: float = 0.7
    bare_middle: float = 0.96
    bare_slope: float = 150.0
    scales: Mapping[str, float] = field(default_factory=dict)

    def label_trust(
        self, similarity: float, familiarity: float = 1.0, evidence: float = 1.0, *, bareness: float = 0.0
    ) -> float:
        """Return the share of label matching, in [floor, ceiling], or up to `bare` for nothing but a class name.

        Args:
            similarity: The query's highest cosine to a class name (`LabelSpace.label_similarity`).
            familiarity: The query's highest cosine to what the bridge was taught (`BridgeWeights.familiarity`).
            evidence: The best picture's cosine in label matching; 1 while nothing was searched.
            bareness: The query's highest cosine to a form of a class name (`LabelSpace.name_similarity`).
        """
        shown = _sigmoid(self.evidence_slope * (evidence - self.evidence_middle))
        trust = self.floor + self.named * _sigmoid(self.slope * (similarity - self.middle)) * shown
        trust += self.strange * _sigmoid(self.strange_slope * (self.strange_middle - familiarity))
        trust = min(trust, self.ceiling)
        return trust + max(self.bare - trust, 0.0) * _sigmoid(self.bare_slope * (bareness - self.bare_middle)) * shown

    def weigh(
        self,
        similarity: float,
        familiarity: float,
        spaces: Iterable[str],
        *,
        evidence: float = 1.0,
        bareness: float = 0.0,
    ) -> dict[str, float]:
        """Return the weights of `spaces` for one query; they sum to 1.

        A space that is missing (a profile without the bridge, say) leaves its share to the others.

        Args:
            similarity: See `label_trust`.
            familiarity: See `label_trust`.
            spaces: The names of the spaces that are searched, any order; an empty one gives an empty dict.
            evidence: See `label_trust`.
            bareness: See `label_trust`.
        """
        trust = self.label_trust(similarity, familiarity, evidence, bareness=bareness)
        raw = {space: {LABELS: trust, BRIDGE: 1.0 - trust}.get(space, 1.0) for space in spaces}
        total = sum(raw.values())
        if total <= 0:  # the only space searched is one that has no trust at all: it is all there is
            return {space: 1.0 / len(raw) for space in raw}
        return {space: weight / total for space, weight in raw.items()}

    def scale(self, space: str) -> float:
        """Return what to divide a space's scores by; for a space that was not fitted, the mean of those that were, else 1."""
        if space in self.scales:
            return self.scales[space]
        return sum(self.scales.values()) / len(self.scales) if self.scales else 1.0

    def to_header(self) -> dict[str, Any]:
        """Return a JSON-serialisable form for the bridge's file."""
        return asdict(self)

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> SpaceWeights:
        """Read what `to_header` returned; an empty mapping gives the defaults."""
        return cls(**header)


def _sigmoid(exponent: float) -> float:
    # beyond +-40 the sigmoid is 0 or 1 to double precision, and exp would overflow for absurd slopes
    return 1.0 / (1.0 + math.exp(-min(max(exponent, -40.0), 40.0)))
