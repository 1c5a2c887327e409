"""Threads of NumPy's matrix multiplications in a service: one, as many queries are answered at once.

OpenBLAS starts a thread for each core and lets idle ones spin. With sixteen queries under way on two cores, multiplications
wait for each other's threads, and an answer takes far more processor time (docs/benchmarks.md has figures).
"""

from __future__ import annotations

from typing import Final

BLAS_ENVIRONMENT: Final = {"OPENBLAS_NUM_THREADS": "1"}
"""Environment variable of a service's processes, which OpenBLAS reads when NumPy is imported."""


def one_blas_thread() -> None:
    """Limit this process's matrix multiplications to one thread; BLAS_ENVIRONMENT comes too late once NumPy is imported."""
    import numpy as np  # noqa: F401 - its library must be there to be limited
    from threadpoolctl import threadpool_limits

    threadpool_limits(limits=1, user_api="blas")
