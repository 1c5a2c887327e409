"""From which sizes on do the stores change what they do? Figures of both adapters, so that they behave alike."""

from __future__ import annotations

# Measured at 896 dimensions, 10 neighbours, ef 128: a scan takes 0.2 ms at 1,000 points, 0.3 at 2,000, 0.9 at 4,000 and about 2
# at 10,000; a walk through the graph 0.3 to 0.6 ms throughout. Under this many candidates a comparison with all is about as
# quick, and exact.
EXHAUSTIVE_POINTS = 4_000

# A graph over 10,000 points costs 10 to 20 core seconds and a second copy on disk, and saves about 1.5 ms a question.
# Collections of fewer points are left to exhaustive search.
GRAPH_WORTHWHILE_POINTS = 10_000

# Points in one engine call. The embedded engine holds the GIL meanwhile, for about 10 ms at 1,000 dimensions.
CALL_POINTS = 256

# Candidates that a quantized first pass hands to the rescoring, a wanted neighbour.
OVERSAMPLING = 2.0


def exhaustive_kilobytes(dim: int) -> int:
    """`EXHAUSTIVE_POINTS` of `dim` float32 in the engines' unit for `full_scan_threshold`; they take no less than 10."""
    return max(EXHAUSTIVE_POINTS * dim * 4 // 1024, 10)
