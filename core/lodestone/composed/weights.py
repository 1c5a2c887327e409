"""Weights of the modalities of a composition, held as squares.

MUST (Wang et al., 2024) scales the vector of modality i by w_i on both sides, so the similarity of that modality counts w_i^2
times (lemma 1). The paper's tables list w_i^2. Here, in files, in the API and on the command line, a *weight* is always that
square: what the modality's similarity is multiplied by. `root` gives w_i itself, where vectors are scaled.

Learnt squares go down to .0007 (table VIII of the paper). A vector that was scaled by so small a w_i before it was stored in
half precision or int8 would be noise, so that such weights would need a floor. Fused vectors have equal roots instead, and
weights stand in the query's vector alone, so there is none.

The squares sum to 1. The early abandoning of equations 8 and 9 is only right then (lemma 4), and scores of different weights
can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lodestone.errors import InvalidRequestError

_SUM_TOLERANCE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class ModalityWeights(Mapping[str, float]):
    """Weights of modalities: each at least 0, together 1. It is a mapping from modality to weight (the square).

    Attributes:
        squares: Modality -> weight. Use `of` to normalise numbers that do not sum to 1.

    Raises:
        InvalidRequestError: a weight is negative or not finite, or they do not sum to 1.

    Example:
        >>> weights = ModalityWeights.of({"picture": 1, "words": 3})
        >>> weights["words"], weights.root("words") ** 2
        (0.75, 0.75)
    """

    squares: Mapping[str, float]

    def __post_init__(self) -> None:
        _check(self.squares)
        if abs(sum(self.squares.values()) - 1) > _SUM_TOLERANCE:
            raise InvalidRequestError(
                f"the weights sum to {sum(self.squares.values()):g}, not to 1", hint="normalise them first"
            )

    @classmethod
    def of(cls, amounts: Mapping[str, float]) -> ModalityWeights:
        """Return weights in the ratio of these amounts.

        Args:
            amounts: Modality -> amount, at least 0; squares already, not roots.

        Raises:
            InvalidRequestError: there is none above 0, or one is negative or not finite.
        """
        _check(amounts)
        greatest = max(amounts.values(), default=0.0)
        if greatest <= 0:
            raise InvalidRequestError("all weights are 0", hint="give at least one of them a weight above 0")
        scaled = {name: amount / greatest for name, amount in amounts.items()}  # no overflow of the sum
        total = math.fsum(scaled.values())
        return cls({name: amount / total for name, amount in scaled.items()})

    @classmethod
    def equal(cls, modalities: Collection[str]) -> ModalityWeights:
        """Return the same weight for each modality."""
        return cls.of(dict.fromkeys(modalities, 1.0))

    def __getitem__(self, modality: str) -> float:
        return self.squares[modality]

    def __iter__(self) -> Iterator[str]:
        return iter(self.squares)

    def __len__(self) -> int:
        return len(self.squares)

    def root(self, modality: str) -> float:
        """Return the number that the modality's vectors are multiplied by: the square root of its weight."""
        return math.sqrt(self.squares[modality])

    def among(self, modalities: Collection[str]) -> ModalityWeights | None:
        """Return the weights of some modalities alone, which sum to 1 again; None if those have no weight."""
        kept = {name: square for name, square in self.squares.items() if name in modalities}
        return ModalityWeights.of(kept) if any(square > 0 for square in kept.values()) else None


def _check(amounts: Mapping[str, float]) -> None:
    for name, amount in amounts.items():
        if not math.isfinite(amount):
            raise InvalidRequestError(f"the weight of {name!r} is {amount!r}", hint="weights are finite numbers")
        if amount < 0:
            raise InvalidRequestError(
                f"the weight of {name!r} is {amount:g}",
                hint="weights are at least 0; what to avoid is a part of the query of its own (without)",
            )
