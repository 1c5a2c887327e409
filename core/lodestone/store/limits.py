"""From which sizes on do the stores change what they do? Figures (and a name) of both adapters, so that they behave alike."""

from __future__ import annotations

from lodestone_schemas.collections import Quantization

# Measured once, on two busy cores (load about 10): 896 dimensions, clustered vectors, 10 neighbours, ef 128, p50 of 60.
# Scan: 0.20 ms at 1,000 points, 0.26 at 2,000, 0.89 at 4,000, 1.68 at 8,000. Graph: 0.27, 0.30, 0.47, 0.44.
# They cross between 2,000 and 4,000; the higher end is taken because a scan is exact.
EXHAUSTIVE_POINTS = 4_000

# Where `build` is worth calling: a judgement, not a crossing. A scan of 10,000 points takes about 2 ms; a graph over them
# took 13 to 27 s to build on two cores, and needs room for a second copy.
GRAPH_WORTHWHILE_POINTS = 10_000

# Points in one engine call. The embedded engine holds the GIL meanwhile, for about 10 ms at 1,000 dimensions.
CALL_POINTS = 256

# What engines call the vectors of a sparse collection: unlike dense ones they must have a name.
SPARSE_VECTOR = "sparse"

# Candidates that a quantized first pass hands to the rescoring, a wanted neighbour.
OVERSAMPLING = {Quantization.INT8: 2.0, Quantization.BINARY: 4.0}


def exhaustive_kilobytes(dim: int) -> int:
    """`EXHAUSTIVE_POINTS` of `dim` float32 in the engines' unit for `full_scan_threshold`; they take no less than 10."""
    return max(EXHAUSTIVE_POINTS * dim * 4 // 1024, 10)
