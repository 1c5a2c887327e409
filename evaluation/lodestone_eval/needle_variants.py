"""NEEDLE's own ranking as configurations of an evaluation: guides alone, and its ablations (NEEDLE, sections 5.2 and 5.3).

NEEDLE ranks by its guides and by nothing else: m guides of each engine, l embedders with their weights, eq. 4, the outlier
filter, no gate, no early end, no tags and no captions. `needle-gate` is its efficient pipeline (section 4): queries that the
gate calls simple get the answer of the words. `needle-trust` lets the embedders' weights follow simulated feedback (E.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

NEEDLE: Final = "needle"
NEEDLE_GATE: Final = "needle-gate"
NEEDLE_TRUST: Final = "needle-trust"
NEEDLE_NAMES: Final = (NEEDLE, NEEDLE_GATE, NEEDLE_TRUST)
NEEDLE_PARTS: Final = ("m", "l", "engines", "size")

PER_ENGINE: Final = 3  # guides of each engine in the paper's experiments
COUNTS: Final = (1, 2, 3)  # m of figure 4
EMBEDDERS: Final = (1, 2, 4, 6)  # l of figure 4, the most trusted embedders first
SIZES: Final = (256, 512, 1024)  # SMALL, MEDIUM and LARGE of figure 6b; the paper gives no pixels
ETA: Final = 0.05  # the paper gives no rate
_VECTORS_ALONE: Final = frozenset({"exemplar", "prior"})  # kinds of engine that draw no pictures


@dataclass(frozen=True, slots=True)
class NeedleSetup:
    """What NEEDLE's ranking is made of in this home.

    Attributes:
        embedders: Spaces, the most trusted first.
        engines: Names of the guide engines, in the profile's order.
        kinds: Kind of each of these engines.
    """

    embedders: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    @property
    def skipped(self) -> str | None:
        """Return why nothing can be ranked by guides; None when it can."""
        return None if self.engines else "no guide engine is set up"


@dataclass(frozen=True, slots=True)
class NeedleVariant:
    """One form of NEEDLE's ranking.

    Attributes:
        per_engine: m, the number of guides of each engine.
        embedders: Spaces that are searched; l is their number.
        engines: Engines that draw.
        size: Side of a generated picture, pixels; None for each engine's own.
        gate: Whether simple queries get the answer of the words.
        eta: Learning rate of simulated feedback; None without feedback.
        outliers: Whether guides unlike the others are left out.
    """

    per_engine: int
    embedders: tuple[str, ...]
    engines: tuple[str, ...]
    size: int | None = None
    gate: bool = False
    eta: float | None = None
    outliers: bool = True

    def request(self) -> dict[str, Any]:
        """Return the fields of `SearchRequest` besides the query. With the gate, every space is searched: it judges words."""
        return {
            "fusion": "weighted_reciprocal_rank",
            "generators": list(self.engines),
            "guides": self.per_engine * len(self.engines),
            "spaces": None if self.gate else list(self.embedders),
            "gate": self.gate,
            "outliers": self.outliers,
            "adaptive": False,
            "tags": False,
            "trust": self.eta is not None,
            "explain": self.eta is not None,
        }


Named = tuple[str, str, NeedleVariant, str | None]
"""Name, description, variant, and why it is not run."""


def needle_variants(run: Sequence[str], ablate: Sequence[str], setup: NeedleSetup, *, eta: float, pairs: bool) -> list[Named]:
    """Return the variants to run, `needle` itself first.

    Args:
        run: Names; those in `NEEDLE_NAMES` count.
        ablate: Names of parts; those in `NEEDLE_PARTS` count, and `outliers` where NEEDLE's ranking is run anyway. `m` and `l`
            together give every combination of the two.
        setup: The home's embedders and engines.
        eta: Learning rate of `needle-trust`.
        pairs: Whether the benchmark consists of pairs, for which there is no feedback.
    """
    parts = [part for part in dict.fromkeys(ablate) if part in NEEDLE_PARTS]
    if not parts and not set(run) & set(NEEDLE_NAMES):
        return []
    base = NeedleVariant(PER_ENGINE, setup.embedders, setup.engines)
    variants: list[Named] = [(NEEDLE, "NEEDLE's ranking: guides alone", base, None)]
    if NEEDLE_GATE in run:
        variants.append((NEEDLE_GATE, "NEEDLE's ranking, and the words for simple queries", replace(base, gate=True), None))
    if NEEDLE_TRUST in run:
        reason = "pairs have no feedback" if pairs else None
        about = f"NEEDLE's ranking, its weights learnt from feedback on the queries before, eta = {eta:g}"
        variants.append((NEEDLE_TRUST, about, replace(base, eta=eta), reason))
    if "outliers" in ablate:
        variants.append(("needle - outliers", "NEEDLE's ranking, all guides kept", replace(base, outliers=False), None))
    if "m" in parts or "l" in parts:
        variants += _grid(base, counts="m" in parts, embedders="l" in parts)
    ablations: dict[str, Callable[[NeedleVariant, NeedleSetup], list[Named]]] = {"engines": _engines, "size": _sizes}
    for part in parts:
        if part in ablations:
            variants += ablations[part](base, setup)
    return [(name, about, variant, setup.skipped or skipped) for name, about, variant, skipped in variants]


def _grid(base: NeedleVariant, *, counts: bool, embedders: bool) -> list[Named]:
    most = len(base.embedders)
    numbers = sorted({min(number, most) for number in EMBEDDERS} | {most}) if embedders else [most]
    variants: list[Named] = []
    for m, number in product(COUNTS if counts else [base.per_engine], numbers):
        if (m, number) != (base.per_engine, most):  # `needle` itself
            chosen = replace(base, per_engine=m, embedders=base.embedders[:number])
            variants.append((f"needle, m={m}, l={number}", "fewer guides of each engine, or fewer embedders", chosen, None))
    return variants


def _engines(base: NeedleVariant, setup: NeedleSetup) -> list[Named]:
    return [
        (f"needle, engines={number}", f"guides of {', '.join(setup.engines[:number])}", replace(base, engines=kept), None)
        for number in range(1, len(setup.engines))
        if (kept := setup.engines[:number])
    ]


def _sizes(base: NeedleVariant, setup: NeedleSetup) -> list[Named]:
    draws = any(kind not in _VECTORS_ALONE for kind in setup.kinds)
    reason = None if draws else "no engine draws pictures"
    return [(f"needle, size={size}", f"pictures of {size} pixels", replace(base, size=size), reason) for size in SIZES]
