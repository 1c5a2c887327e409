"""Split of captioned pictures by hash: one part for training, one for choosing, one for the final figure.

The rule: order the distinct file names by the SHA-256 of their UTF-8 bytes; the first three quarters are `train`, the next
twelfth is `validation`, the rest `test` (6,000 names: 4,500 / 500 / 1,000). It needs no table, and it has no seed that could be
tuned. `PINNED` holds the digests of the parts that the published figures were measured on: `Split.digests` of the same files
must be equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Split:
    """Holds the file names of each part, in the order of their hashes."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    @property
    def digests(self) -> dict[str, str]:
        """Return part -> SHA-256 of its names, joined by newlines."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        return {part: hashlib.sha256("\n".join(names).encode()).hexdigest() for part, names in parts.items()}


def split_by_hash(names: Iterable[str]) -> Split:
    """Split distinct file names by the module's rule; duplicates count once.

    Args:
        names: File names relative to the set's folder, in any order.
    """
    ordered = sorted(set(names), key=lambda name: (hashlib.sha256(name.encode()).digest(), name))
    first, second = len(ordered) * 3 // 4, len(ordered) * 5 // 6
    return Split(tuple(ordered[:first]), tuple(ordered[first:second]), tuple(ordered[second:]))


# Flickr8k, official training split, file names as published ("1000268201_693b08cb0e.jpg").
PINNED: Final[dict[str, str]] = {
    "train": "c0011de1b21c93e61dfba8acaac265388a9caafc9d09d587f5a40f499d5c16bc",
    "validation": "43f1c5545803d92d87efd9b92d1111ece0b0e9d84d2cf9816e0a80949fdbece9",
    "test": "5222e34ecc8c598b16747dd8e859b14681c67f3881f0d988c371dc5324d3472c",
}
