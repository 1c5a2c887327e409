"""Sets of a request as a tree: what its `match` says, beside the words and pictures of the request itself."""

from __future__ import annotations

from collections.abc import Iterator

from lodestone.query.asking.restrictions import RESTRICTIONS
from lodestone.query.asking.tree import And, Image, Not, Or, Query, Text
from lodestone_schemas.api import QuerySet, SearchOptions, SearchRequest


def tree_of(match: QuerySet) -> Query:
    """Return the tree that a set means.

    Raises:
        InvalidRequestError: a value in it makes no sense, such as blank words.
    """
    if match.all is not None:
        return And(tuple(map(tree_of, match.all)))
    if match.any is not None:
        return Or(tuple(map(tree_of, match.any)))
    if match.none is not None:
        return Not(Or(tuple(map(tree_of, match.none))))
    return _leaf_of(match)


def query_of(request: SearchRequest) -> Query:
    """Return what a request asks for by its words and its sets alone.

    Raises:
        InvalidRequestError: there is neither, or as `tree_of`.
    """
    if request.match is not None and not request.query.strip():
        return tree_of(request.match)
    return with_sets(Text(request.query), request)


def with_sets(query: Query, options: SearchOptions) -> Query:
    """Return a query together with the sets of its request.

    Raises:
        InvalidRequestError: as `tree_of`.
    """
    match = options.match if isinstance(options, SearchRequest) else None
    return query if match is None else And((query, tree_of(match)))


def ranking_members(match: QuerySet | None) -> Iterator[QuerySet]:
    """Yield the members of a set, at any depth, that rank: words and pictures."""
    if match is None:
        return
    if match.words is not None or match.like is not None:
        yield match
    for part in (*(match.all or ()), *(match.any or ()), *(match.none or ())):
        yield from ranking_members(part)


def _leaf_of(match: QuerySet) -> Query:
    if match.words is not None:
        return Text(match.words)
    if match.like is not None:
        return Image(match.like)
    return next(row.made_of(value) for row in RESTRICTIONS.values() if (value := getattr(match, row.member)) is not None)
