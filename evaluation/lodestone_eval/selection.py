"""Selection of a benchmark's pictures, queries and captions by hash, so that it is the same on every machine.

The selection depends on the seed and the names only: a larger number selects the same ones and more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from lodestone.errors import InvalidRequestError
from lodestone_eval.datasets.base import EvalQuery, EvalSet, same_text

_CHOICES: Final = 2**64
Target = Literal["described", "undescribed", "mixed"]


@dataclass(frozen=True, slots=True)
class QuerySelection:
    """Describes which part of a benchmark is used.

    Attributes:
        limit: Highest number of pictures (or pairs); None for all.
        sample: Highest number of queries; None for all.
        captioned: Share of the pictures that are indexed with captions. One caption of each picture becomes a query, and only
            the others are indexed. None: every caption becomes a query, and none is indexed.
        seed: Seed of the selection.
    """

    limit: int | None = None
    sample: int | None = None
    captioned: float | None = None
    seed: int = 0


def select(evalset: EvalSet, selection: QuerySelection) -> EvalSet:
    """Return the selected part of a benchmark.

    Raises:
        InvalidRequestError: captions are selected where there are none, or no query is left.
    """
    if selection.captioned is not None:
        if not evalset.captions:
            raise InvalidRequestError(
                f"{evalset.name} has no captions to index", hint="--captioned is for benchmarks whose queries are captions"
            )
        if not 0 <= selection.captioned <= 1:
            raise InvalidRequestError(f"--captioned {selection.captioned} is no share", hint="give a number from 0 to 1")
    if evalset.kind == "pairs":
        return _select_pairs(evalset, selection)
    if selection.limit is not None:
        evalset = _limited(evalset, first(evalset.pictures, selection.limit, seed=selection.seed))
    if selection.captioned is not None:
        evalset = _described(evalset, selection.captioned, seed=selection.seed)
    if selection.sample is not None:
        kept = frozenset(first((query.query_id for query in evalset.queries), selection.sample, seed=selection.seed))
        evalset = replace(evalset, queries=tuple(query for query in evalset.queries if query.query_id in kept))
    if not evalset.queries:
        raise InvalidRequestError(f"{evalset.name}: no query is left", hint="raise --limit or --sample")
    return evalset


def target_of(query: EvalQuery, described: frozenset[str]) -> Target:
    """Return whether a query's right pictures have a caption or a tag in the index: all, none or some of them."""
    if query.relevant <= described:
        return "described"
    return "mixed" if query.relevant & described else "undescribed"


def first(names: Iterable[str], count: int, *, seed: int) -> list[str]:
    """Return the `count` names with the smallest hash."""
    return sorted(names, key=lambda name: (_number(name, seed, "pick"), name))[:count]


def _select_pairs(evalset: EvalSet, selection: QuerySelection) -> EvalSet:
    counts = [count for count in (selection.limit, selection.sample) if count is not None]
    if not counts:
        return evalset
    kept = frozenset(first((pair.pair_id for pair in evalset.pairs), min(counts), seed=selection.seed))
    pairs = tuple(pair for pair in evalset.pairs if pair.pair_id in kept)
    names = {name for pair in pairs for name in pair.pictures}
    return replace(evalset, pairs=pairs, pictures={name: evalset.pictures[name] for name in sorted(names)})


def _limited(evalset: EvalSet, names: Sequence[str]) -> EvalSet:
    kept = frozenset(names)
    queries = (query.among(kept) for query in evalset.queries)
    return replace(
        evalset,
        pictures={name: path for name, path in evalset.pictures.items() if name in kept},
        queries=tuple(query for query in queries if query.relevant),
        captions={name: texts for name, texts in evalset.captions.items() if name in kept},
    )


def _described(evalset: EvalSet, share: float, *, seed: int) -> EvalSet:
    """Turn one caption of each picture into its query, and index the others with a share of the pictures."""
    queries_by_text = {same_text(query.text): query for query in evalset.queries}
    pictures_by_text: dict[str, dict[str, None]] = {}  # text -> the pictures it was chosen for
    for name, texts in evalset.captions.items():
        usable = [same_text(text) for text in texts if same_text(text) in queries_by_text]
        if usable:
            pictures_by_text.setdefault(usable[_number(name, seed, "query") % len(usable)], {})[name] = None
    chosen = {name: text for text, names in pictures_by_text.items() for name in names}
    sidecars = {}
    for name, texts in evalset.captions.items():
        if _number(name, seed, "described") < share * _CHOICES:
            # A text that is a query is not indexed with any other picture that has it either.
            others = tuple(text for text in texts if same_text(text) not in pictures_by_text)
            if others and name in chosen:
                sidecars[name] = others
    queries = tuple(query for query in evalset.queries if same_text(query.text) in pictures_by_text)
    return replace(evalset, queries=queries, sidecars=sidecars)


def _number(name: str, seed: int, purpose: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{purpose}:{seed}:{name}".encode()).digest()[:8], "big")
