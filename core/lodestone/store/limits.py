"""Limits, thresholds and one vector name that both adapters share, so that they behave alike."""

from __future__ import annotations

from lodestone_schemas.collections import Quantization

# Measured once, on two busy cores (load about 10): 896 dimensions, clustered vectors, 10 neighbours, ef 128, p50 of 60.
# Scan: 0.20 ms at 1,000 points, 0.26 at 2,000, 0.89 at 4,000, 1.68 at 8,000. Graph: 0.27, 0.30, 0.47, 0.44.
# They cross between 2,000 and 4,000; the higher end is taken because a scan is exact.
EXHAUSTIVE_POINTS = 4_000

# Points up to which an embedded collection is held as a matrix. (Measured on one busy core, best of 10.) At 10,000 x 898 one
# query takes 1.7 ms and ten together 7 ms, without the GIL; at 50,000 x 384 it is 6.5 and 19 ms. A graph takes about 0.5 ms a
# query, so a collection that has one is searched by it, and the matrix only scores. That costs 0.1 ms for 300 points of any
# collection, and the engine 1.7 ms under the GIL. What limits it is the file: 0.7 GB for 200,000 points of 898 numbers.
MATRIX_POINTS = 200_000

# Searches of a collection that the engine answers before its matrix is made. Reading 1,000 points of 898 numbers takes 50 ms,
# which a command that asks once would pay in vain.
MATRIX_AFTER = 16

# Points of a collection above which a query's guides are merged: one search for all of them beside that of the words.
MERGE_ABOVE = 10_000_000
MERGED_SEARCHES = 2

# Points in one engine call. The embedded engine holds the GIL meanwhile, for about 10 ms at 1,000 dimensions.
CALL_POINTS = 256

# Name of the vectors of a sparse collection; engines require one for sparse vectors but not for dense ones.
SPARSE_VECTOR = "sparse"

# Candidates that a quantized first pass returns for rescoring, for each requested neighbour.
OVERSAMPLING = {Quantization.INT8: 2.0, Quantization.BINARY: 4.0}


def exhaustive_kilobytes(dim: int) -> int:
    """Return `EXHAUSTIVE_POINTS` of `dim` float32 in kilobytes, the unit of the engines' `full_scan_threshold`; at least 10."""
    return max(EXHAUSTIVE_POINTS * dim * 4 // 1024, 10)
