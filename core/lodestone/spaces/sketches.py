"""Sketches by which a bridge recognises the pictures that it was trained on.

A sketch holds the signs of a picture's largest principal components, 64 bits. Most copies of a picture differ in few of them,
other pictures in many (hyperplanes as in Charikar, 2002, but along the directions of largest variance). No picture can be read
from a sketch.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.spaces.bridge_arrays import Array

COMPONENTS: Final = 64
MOST_DIFFERENT: Final = 8  # bits; chosen on copies of validation photos and on other photos (docs/training.md)
_BYTES: Final = COMPONENTS // 8
_AT_ONCE: Final = 512

Sketches = NDArray[np.uint8]


def sketches_of(components: Array) -> Sketches:
    """Return the sketches of (n, k) principal components, the largest first: (n, 8) uint8. Missing components count as 0."""
    signs = np.zeros((len(components), COMPONENTS), bool)
    signs[:, : components.shape[1]] = components[:, :COMPONENTS] > 0
    return np.packbits(signs, axis=1)


def no_sketches() -> Sketches:
    """Return the sketches of no picture: (0, 8)."""
    return np.zeros((0, _BYTES), np.uint8)


def recognised(sketches: Sketches, among: Sketches) -> NDArray[np.bool_]:
    """Return which of n pictures are among m others, or copies of one: (n,) bool.

    Args:
        sketches: (n, 8) sketches.
        among: (m, 8) sketches.
    """
    asked, known = (np.ascontiguousarray(rows).view(np.uint64).ravel() for rows in (sketches, among))
    found = np.zeros(len(asked), bool)
    if len(known) == 0:
        return found
    for start in range(0, len(asked), _AT_ONCE):
        differing = np.bitwise_count(asked[start : start + _AT_ONCE, None] ^ known[None, :])
        found[start : start + _AT_ONCE] = differing.min(1) <= MOST_DIFFERENT
    return found
