"""How sure is an answer of a picture? A linear model of where it stands among the fused scores.

Scores are weighted means of similarities in units of their spread, so that they mean the same in every collection and for every
set of spaces. What counts is how high a picture scores, how far ahead of the next one, how far behind the best, how far above
the tenth, and how much the guides had to say. Fitted by training/confidence.py on queries whose right answers are known.
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
    """A fitted model; immutable.

    Attributes:
        intercept: Confidence where all evidence is 0.
        weights: Kind of evidence -> what one unit of it adds.
        threshold: From here on a picture is tagged.
        provenance: JSON-serialisable: data, licence, figures.
    """

    intercept: float
    weights: Mapping[str, float]
    threshold: float
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def of(self, scores: Array, *, guides: float, most: int) -> Array:
        """Confidence in each of the first pictures of a ranking, in [0, 1].

        Args:
            scores: (n,) fused scores, descending.
            guides: Weight of the guides' lists, the text pass's weighing 1.
            most: Pictures to judge.

        Returns:
            (min(most, n - 1),): of the last picture of a ranking nothing is known. Empty when a score is not a number.
        """
        found = evidence(scores, guides=guides, most=most)
        weights = np.array([self.weights.get(name, 0.0) for name in EVIDENCE])
        judged: Array = np.clip(self.intercept + found @ weights, 0, 1)
        return judged

    def to_json(self) -> str:
        """The inverse of `from_json`."""
        content = {
            "intercept": self.intercept,
            "weights": dict(self.weights),
            "threshold": self.threshold,
            "provenance": dict(self.provenance),
        }
        return json.dumps(content, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Confidence:
        """Parse what `to_json` wrote."""
        return cls(**json.loads(text))

    @classmethod
    def shipped(cls) -> Confidence:
        """The model inside the package: `data/gate/`."""
        return cls.from_json(files("lodestone").joinpath("data", "gate", SHIPPED).read_text(encoding="utf-8"))


def evidence(scores: Array, *, guides: float, most: int) -> Array:
    """(min(most, n - 1), 5): columns as in `EVIDENCE`; see `Confidence.of`."""
    judged = max(0, min(most, len(scores) - 1))
    if not judged or not np.isfinite(scores).all():
        return np.empty((0, len(EVIDENCE)))
    first = np.asarray(scores[:judged], np.float64)
    tenth = float(scores[min(_TENTH, len(scores) - 1)])
    return np.stack(
        [first, first - scores[1 : judged + 1], scores[0] - first, first - tenth, np.full(judged, float(guides))], axis=1
    )
