"""Sets in queries: a tree of `And`, `Or`, `Not` and `Where` as alternatives, each ranking the pictures that it lets through.

Restrictions are exact: a picture meets one or it does not. Leaves rank: every picture is more or less like them. So a leaf lets
every picture through, and

    And   lets through what all of its parts do, ranked by their leaves together, as a composed query of equal parts
    Or    lets through what one of its parts does; a picture's score is the highest that one of these parts gives it
    Not   lets through what a part of restrictions does not

A tree of this kind is the union of a few alternatives (its disjunctive normal form over the parts that rank), each of one
filter and one composed query. With one alternative the query is what its leaves make it, in words or composed, within a filter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from lodestone.errors import InvalidRequestError
from lodestone.query.asking.parts import free_name, kind_of, parts_of
from lodestone.query.asking.tree import And, Compose, Leaf, Meets, Not, Or, Query, Restriction, Where
from lodestone.store.algebra import EVERY_POINT, all_of, any_of, complement
from lodestone.store.base import Filter

MOST_ALTERNATIVES: Final = 8
"""Alternatives of one query: each is searched by itself."""

MOST_NODES: Final = 200
"""Nodes of one query, `Compose` with its parts counting as one."""

_DEEPEST: Final = 32


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way in which a picture can meet a query.

    Attributes:
        rankers: What ranks the pictures; of several, their leaves count together. Empty where nothing ranks.
        within: Filter of the pictures that it lets through.
    """

    rankers: tuple[Leaf | Compose, ...]
    within: Filter


def alternatives_of(query: Query, filter_of: Callable[[Restriction], Filter]) -> list[Alternative]:
    """Return the alternatives of a query, in the order in which they stand in it.

    Args:
        query: The tree, without the `Where` nodes above all else.
        filter_of: Returns the filter of a restriction.

    Raises:
        InvalidRequestError: nothing in the query, or in a part of an `Or`, ranks pictures; a `Not` is above something that
            does; or there are too many alternatives or nodes.
    """
    _check_size(query)
    found = _alternatives(query, filter_of)
    if not all(one.rankers for one in found):
        raise InvalidRequestError(
            "the query says which pictures may be found, and nothing to rank them by",
            hint="add words or a picture; without either, browse the pictures: lodestone browse, POST /v1/images/browse",
        )
    return found


def restricting(query: Query, filter_of: Callable[[Restriction], Filter]) -> Filter:
    """Return the filter of a tree of restrictions, for those who rank nothing.

    Args:
        query: The tree.
        filter_of: Returns the filter of a restriction.

    Raises:
        InvalidRequestError: something in the tree ranks pictures, or it has too many nodes.
    """
    _check_size(query)
    found = _alternatives(query, filter_of)
    if any(one.rankers for one in found):
        raise InvalidRequestError(
            "words and pictures rank, and nothing is ranked here",
            hint="give restrictions alone: filters, `tagged`, or pictures by their ids",
        )
    return any_of(one.within for one in found)


def composed_of(rankers: Sequence[Leaf | Compose], taken: Sequence[str] = ()) -> Compose:
    """Return what several rankers say together: each has the same share, and a composed one divides its own among its parts.

    Args:
        rankers: Leaves and composed queries.
        taken: Names that its parts may not have.
    """
    parts: list[tuple[Query, float]] = []
    names = list(taken)
    for ranker in rankers:
        if isinstance(ranker, Leaf):
            parts.append((ranker, 1.0))
            names.append(free_name(kind_of(ranker, avoid=False), names))
            continue
        for part in parts_of(ranker):
            parts.append((part.leaf, -part.weight if part.avoid else part.weight))
            names.append(part.name if part.name not in names else free_name(kind_of(part.leaf, avoid=part.avoid), names))
    diversity = max((ranker.diversity for ranker in rankers if isinstance(ranker, Compose)), default=0.0)
    return Compose(tuple(parts), tuple(names[len(taken) :]), diversity)


def _alternatives(query: Query, filter_of: Callable[[Restriction], Filter]) -> list[Alternative]:
    match query:
        case Leaf() | Compose():
            return [Alternative((query,), EVERY_POINT)]
        case Restriction():
            return [Alternative((), filter_of(query))]
        case Where(filters, within):
            return _together([_alternatives(Meets(filters), filter_of), _alternatives(within, filter_of)])
        case And(parts):
            return _together([_alternatives(part, filter_of) for part in parts])
        case Or(parts):
            return _either([one for part in parts for one in _alternatives(part, filter_of)])
        case Not(negated):
            return _none_of(_alternatives(negated, filter_of))
        case _:
            node = type(query).__name__
            raise InvalidRequestError(f"queries of the type {node!r} are not answered", hint="e.g. Text('a dog')", node=node)


def _together(parts: Sequence[list[Alternative]]) -> list[Alternative]:
    count = 1
    for part in parts:
        count *= len(part)
        _check_count(count)
    return [
        Alternative(tuple(ranker for one in chosen for ranker in one.rankers), all_of(one.within for one in chosen))
        for chosen in product(*parts)
    ]


def _either(parts: list[Alternative]) -> list[Alternative]:
    ranking = [one for one in parts if one.rankers]
    if not ranking:
        return [Alternative((), any_of(one.within for one in parts))]
    if len(ranking) < len(parts):
        raise InvalidRequestError(
            "one side of an `any` (Or) ranks pictures and another only restricts them, so they cannot be put in one order",
            hint="give each side words or a picture, or restrict the whole query: `all` of the words and of that `any`",
        )
    _check_count(len(ranking))
    return ranking


def _none_of(parts: Sequence[Alternative]) -> list[Alternative]:
    if any(one.rankers for one in parts):
        raise InvalidRequestError(
            "words and pictures cannot be negated (`none`, Not): every picture is a little like them",
            hint="have pictures like them come last: `without` for words, `unlike` for a picture (--without, --unlike)",
        )
    return [Alternative((), complement(any_of(one.within for one in parts)))]


def _check_count(count: int) -> None:
    if count > MOST_ALTERNATIVES:
        raise InvalidRequestError(
            f"the query has {count} or more alternatives, at most {MOST_ALTERNATIVES} are answered",
            hint="ask for fewer at once; `any` inside `all` multiplies them",
            most=MOST_ALTERNATIVES,
        )


def _check_size(query: Query) -> None:
    """Raise `InvalidRequestError` for a tree with too many nodes, or too deep; without recursion, which would end earlier."""
    waiting, nodes = [(query, 1)], 0
    while waiting:
        node, depth = waiting.pop()
        nodes += 1
        if nodes > MOST_NODES or depth > _DEEPEST:
            raise InvalidRequestError(
                f"the query has more than {MOST_NODES} nodes, or is more than {_DEEPEST} deep", hint="ask for less at once"
            )
        match node:
            case And(parts) | Or(parts):
                waiting += [(part, depth + 1) for part in parts]
            case Not(part) | Where(_, part):
                waiting.append((part, depth + 1))
            case _:
                pass
