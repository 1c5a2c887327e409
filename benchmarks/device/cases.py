"""Cases of the check of a GPU: what was measured of one way of running one model, and how vectors are compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.device.meters import cosines


@dataclass(frozen=True, slots=True)
class Comparison:
    """Vectors beside their references.

    Attributes:
        cosine: Least cosine of a vector with its reference.
        strays: Vectors that are nearer to the reference of another picture than to their own.
        tolerance: Least cosine that passes.
    """

    cosine: float
    strays: int
    tolerance: float

    @property
    def fault(self) -> str:
        """Return why the vectors do not pass; empty where they do."""
        problems = []
        if not self.cosine >= self.tolerance:
            problems.append(f"the least cosine is {self.cosine:.4f}, less than {self.tolerance:g}")
        if self.strays:
            problems.append(f"{self.strays} vectors are nearer to another picture's reference")
        return " and ".join(problems)


@dataclass(frozen=True, slots=True)
class Case:
    """What was measured of one way of running a model.

    Attributes:
        model: The model.
        way: How it was run, in words.
        rate: Pictures a second.
        flops: Operations of one picture.
        is_steps: Whether the rate is that of single denoising steps.
        busy: Share of the time in which the device computed; None where it was not measured.
        cosine: Least cosine with the CPU's vectors; None where there are none to compare.
        published: Pictures a second that clip-retrieval states for the model on an A100; None where that does not compare.
        fault: Why outputs differ from the CPU's; empty where they do not, or are not compared.
        facts: More about the case, as JSON values.
    """

    model: str
    way: str
    rate: float
    flops: float
    is_steps: bool = False
    busy: float | None = None
    cosine: float | None = None
    published: float | None = None
    fault: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return model and way."""
        return f"{self.model}, {self.way}"


def compare(vectors: NDArray[np.float16], reference: NDArray[np.float16], tolerance: float) -> Comparison:
    """Compare the first vectors with their references.

    Vectors of models with random weights are all much alike, so a cosine near 1 does not tell whose vector it is. Which
    reference is nearest is therefore asked after the mean of all references is taken away.

    Args:
        vectors: (n, dim), of which the first m are compared.
        reference: (m, dim), m >= 2.
        tolerance: Least cosine that passes.
    """
    first = vectors[: len(reference)]
    mean = reference.astype(np.float64).mean(0)
    own, others = np.nan_to_num(first.astype(np.float64), posinf=0.0, neginf=0.0) - mean, reference.astype(np.float64) - mean
    others /= np.maximum(np.linalg.norm(others, axis=1, keepdims=True), 1e-12)
    nearest = np.argmax(own @ others.T, axis=1)
    strays = int((nearest != np.arange(len(reference))).sum())
    return Comparison(float(cosines(first, reference).min()), strays, tolerance)
