"""Linear model of how confident an answer is of each picture, from the picture's position among the fused scores.

Scores are weighted means of similarities in units of their spread, so that they mean the same in every collection and for every
set of spaces. The evidence is how high a picture scores, how far ahead of the next one, how far behind the best, how far above
the tenth, and how much weight the guides had. research/fits/tag_confidence.py fits the model on queries whose right answers are
known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

EVIDENCE: Final = ("score", "lead", "behind", "drop", "guides")
SHIPPED: Final = "tags.json"
_TENTH: Final = 10
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Confidence:
    """Estimates the confidence in the first pictures of a ranking; immutable.

    Attributes:
        intercept: Confidence where all evidence is 0.
        weights: Kind of evidence -> what one unit of it adds.
        threshold: Confidence from which a picture is tagged.
        provenance: Data, licence and figures; JSON-serialisable.
    """

    intercept: float
    weights: Mapping[str, float]
    threshold: float
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def of(self, scores: Array, *, guides: float, most: int) -> Array:
        """Return the confidence in each of the first pictures of a ranking, in [0, 1].

        Args:
            scores: (n,) fused scores, descending.
            guides: Weight of the guides' lists, relative to the text pass's weight of 1.
            most: Highest number of pictures to judge.

        Returns:
            (min(most, n - 1),) float64. The last picture of a ranking has no successor, so it is not judged. The array is empty
            when a score is not a number.
        """
        features = evidence(scores, guides=guides, most=most)
        weights = np.array([self.weights.get(name, 0.0) for name in EVIDENCE])
        confidence: Array = np.clip(self.intercept + features @ weights, 0, 1)
        return confidence

    def to_json(self) -> str:
        """Return the model as JSON, which `from_json` reads."""
        content = {
            "intercept": self.intercept,
            "weights": dict(self.weights),
            "threshold": self.threshold,
            "provenance": dict(self.provenance),
        }
        return json.dumps(content, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Confidence:
        """Return the model that `to_json` wrote."""
        return cls(**json.loads(text))

    @classmethod
    def shipped(cls) -> Confidence:
        """Return the model that ships inside the package, in `data/gate/`."""
        return cls.from_json(files("lodestone").joinpath("data", "gate", SHIPPED).read_text(encoding="utf-8"))


def evidence(scores: Array, *, guides: float, most: int) -> Array:
    """Return the evidence for the first pictures of a ranking: (min(most, n - 1), 5), with columns as in `EVIDENCE`.

    Args:
        scores: (n,) fused scores, descending.
        guides: Weight of the guides' lists, relative to the text pass's weight of 1.
        most: Highest number of pictures to judge.
    """
    judged = max(0, min(most, len(scores) - 1))
    if not judged or not np.isfinite(scores).all():
        return np.empty((0, len(EVIDENCE)))
    first = np.asarray(scores[:judged], np.float64)
    tenth = float(scores[min(_TENTH, len(scores) - 1)])
    return np.stack(
        [first, first - scores[1 : judged + 1], scores[0] - first, first - tenth, np.full(judged, float(guides))], axis=1
    )
