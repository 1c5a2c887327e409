"""Filters of the store, made from restrictions in names and dates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone.catalog.reading import CatalogReader
from lodestone.catalog.records import Root
from lodestone.errors import InvalidRequestError, UnknownNameError
from lodestone.query.asking.part_fields import part_conditions
from lodestone.query.asking.tree import Leaf
from lodestone.sources.uris import spellings
from lodestone.store.base import Between, Condition, Filter, HasId, MatchAny
from lodestone_schemas.api import SearchFilters
from lodestone_schemas.collections import FieldKind
from lodestone_schemas.dates import seconds_of

_NAMED: Final = 3  # directories in a note
_CANDIDATES: Final = 5  # folders of one name in an error
_NOWHERE: Final = "nowhere"  # id of no corpus


@dataclass(frozen=True, slots=True)
class FilterSources:
    """What filters are made from.

    Attributes:
        catalog: Facts of pictures.
        visibility: What the caller sees. The filter of the query keeps everything else out, so a restriction need not.
        fields: Fields that further parts give the points of pictures, by name.
    """

    catalog: CatalogReader
    visibility: Visibility = EVERYTHING
    fields: Mapping[str, FieldKind] = field(default_factory=dict)


def build_filter(filters: SearchFilters, catalog: CatalogReader) -> Filter | None:
    """Return all given conditions together, without disabled directories; None when nothing is restricted."""
    return restriction(filters, FilterSources(catalog))[0]


def restriction(filters: SearchFilters, sources: FilterSources) -> tuple[Filter | None, list[str]]:
    """Return the filter of a request, and notes for its sender about disabled directories.

    Directories are disabled here and nowhere else: their points stay as they are, so that switching costs nothing and takes
    effect with the next query in any process. The catalog is asked for that, and for the ids behind names. Corpora that the
    caller does not see are treated as if they did not exist.

    Raises:
        UnknownNameError: no such corpus, no such root in the corpora asked for, or no such field of a part.
        InvalidRequestError: `taken_from` is not before `taken_to`, the path prefix leaves the root, several folders have
            this name, or a field has no such values.
    """
    must: list[Condition] = []
    must_not: list[Condition] = []
    catalog = sources.catalog
    corpora = _corpus_ids(filters.corpora, catalog, sources.visibility)
    if corpora:
        must.append(MatchAny("corpus", tuple(corpora)))
    if filters.roots:
        must.append(MatchAny("root", _root_ids(filters.roots, corpora, catalog)))
    folder = _folder(filters.path_prefix or "")
    disabled = catalog.disabled_roots()
    notes: list[str] = []
    if folder:
        place, notes = _place(folder, _asked(filters, corpora, catalog), catalog, set(disabled))
        must.append(place)
    if filters.taken_from is not None or filters.taken_to is not None:
        must += _taken(filters.taken_from, filters.taken_to)
        must_not += _not_whole(filters.taken_to)
    must += part_conditions(filters.where, sources.fields)
    if disabled:
        must_not.append(MatchAny("root", disabled))
    filter_ = Filter(tuple(must), tuple(must_not)) if must or must_not else None
    return filter_, [*_notes(filters, corpora, catalog, set(disabled)), *notes]


def query_filter(
    filters: Sequence[SearchFilters], sources: FilterSources, leaves: Sequence[Leaf]
) -> tuple[Filter | None, list[str]]:
    """Return the store's filter for all filters of a query together, and notes for its sender.

    No picture is among those like it.

    Args:
        filters: Those above the leaves.
        sources: What filters are made from.
        leaves: What is looked for.

    Raises:
        UnknownNameError, InvalidRequestError: as `restriction`.
    """
    must: list[Condition] = []
    must_not: list[Condition] = []
    notes: list[str] = []
    for conditions in filters or [SearchFilters()]:
        restricted, new_notes = restriction(conditions, sources)
        if restricted is not None:
            must += restricted.must
            must_not += restricted.must_not
        notes += new_notes
    must_not += without_sources(leaves).must_not
    filter_ = Filter(tuple(must), tuple(dict.fromkeys(must_not))) if must or must_not else None
    return filter_, list(dict.fromkeys(notes))


def without_sources(leaves: Sequence[Leaf]) -> Filter:
    """Return the filter that leaves out the indexed pictures which leaves were taken from."""
    themselves = [leaf.source.image_id for leaf in leaves if leaf.source.image_id]
    return Filter(must_not=(HasId(tuple(dict.fromkeys(themselves))),)) if themselves else Filter()


def _corpus_ids(names: Sequence[str], catalog: CatalogReader, visibility: Visibility) -> list[str]:
    """Return the ids of the corpora to search; none for all."""
    if visibility.corpora is None:
        return [catalog.corpus(name).corpus_id for name in dict.fromkeys(names)]
    seen = catalog.corpus_ids(visibility.corpora)
    for name in names:
        if name not in seen:
            raise visibility.unknown_corpus(name, seen)
    return [seen[name] for name in dict.fromkeys(names or sorted(seen))] or [_NOWHERE]


def _notes(filters: SearchFilters, corpora: Sequence[str], catalog: CatalogReader, disabled: set[str]) -> list[str]:
    """Return notes for a search of which all directories, or some that it names, are disabled."""
    if not disabled:
        return []
    roots = [root for root in catalog.roots(None) if not corpora or root.corpus_id in corpora]
    asked = [root for root in roots if not filters.roots or root.name in filters.roots]
    if asked and all(root.root_id in disabled for root in asked):
        return [f"{_directories(asked)} disabled, so nothing is searched; see `lodestone directory list`"]
    left_out = [root for root in asked if root.root_id in disabled]
    if filters.roots and left_out:
        return [f"{_directories(left_out)} disabled and left out; see `lodestone directory list`"]
    return []


def _directories(roots: Sequence[Root]) -> str:
    names = ", ".join(repr(root.name) for root in roots[:_NAMED])
    more = f" and {len(roots) - _NAMED} more" if len(roots) > _NAMED else ""
    return f"the directories {names}{more} are" if len(roots) > 1 else f"the directory {names} is"


def _root_ids(names: Sequence[str], corpora: Sequence[str], catalog: CatalogReader) -> tuple[str, ...]:
    roots = [root for corpus_id in corpora for root in catalog.roots(corpus_id)] if corpora else catalog.roots(None)
    known = {root.name for root in roots}
    for name in names:
        if name not in known:
            raise UnknownNameError.among("root", name, sorted(known))
    return tuple(root.root_id for root in roots if root.name in set(names))


def _folder(prefix: str) -> str:
    """Return the prefix as in the payload field `folders`: no slash at either end, none doubled; "" for the root itself."""
    parts = [part for part in prefix.split("/") if part not in {"", "."}]
    if ".." in parts:
        raise InvalidRequestError(
            f"path prefix {prefix!r} leaves the root", hint="name a folder inside the root, e.g. 2024/summer"
        )
    return "/".join(parts)


def _asked(filters: SearchFilters, corpora: Sequence[str], catalog: CatalogReader) -> list[Root]:
    roots = [root for root in catalog.roots(None) if not corpora or root.corpus_id in corpora]
    return [root for root in roots if not filters.roots or root.name in filters.roots]


def _place(folder: str, asked: Sequence[Root], catalog: CatalogReader, disabled: set[str]) -> tuple[Condition, list[str]]:
    """Return the condition that a picture lies in a folder, and notes on directories inside it, which have places of their own.

    The folder is one inside a root, by its path or by its name alone, or the root's own: a folder that was made a directory is
    still found by the path and the name that it had.

    Raises:
        InvalidRequestError: several folders have the name; they are listed.
    """
    called = _folder_meant(folder, asked, catalog)
    names = spellings(called or folder)
    own = [] if called else [root for root in asked if root.path.endswith(tuple(f"/{name}" for name in names))]
    if own:
        left_out = [root for root in own if root.root_id in disabled]
        notes = [f"{_directories(left_out)} disabled and left out; see `lodestone directory list`"] if left_out else []
        return MatchAny("root", tuple(root.root_id for root in own)), notes
    below = tuple(f"{root.path.rstrip('/')}/{name}/" for root in asked for name in names)
    inside = [root for root in asked if root.path.startswith(below) and root.root_id not in disabled]
    notes = [f"{_directories(inside)} inside {called or folder!r} and not searched with it; --root names it"] if inside else []
    return MatchAny("folders", names), notes


def _folder_meant(folder: str, asked: Sequence[Root], catalog: CatalogReader) -> str:
    """Return the folder inside the roots that a path or a name means; "" for none.

    Raises:
        InvalidRequestError: several folders have the name; they are listed.
    """
    called = catalog.folders_called(spellings(folder), [root.root_id for root in asked], most=_CANDIDATES + 1)
    if len(called) > 1:
        more = " and more" if len(called) > _CANDIDATES else ""
        raise InvalidRequestError(
            f"several folders are called {folder!r}: {', '.join(map(repr, called[:_CANDIDATES]))}{more}",
            hint="give the path of the one that is meant, from its root on",
            candidates=called[:_CANDIDATES],
        )
    return called[0] if called else ""


def _taken(start: datetime | None, end: datetime | None) -> list[Between]:
    """Return the conditions of two bounds, each on its own clock: that of the picture, or UTC where a bound has an offset."""
    if start is not None and end is not None and _is_absolute(start) == _is_absolute(end) and start >= end:
        raise InvalidRequestError(
            f"taken_from {start} is not before taken_to {end}", hint="taken_from is included, taken_to is not"
        )
    conditions: list[Between] = []
    for absolute in (False, True):
        first, last = (
            None if bound is None or _is_absolute(bound) != absolute else seconds_of(bound) for bound in (start, end)
        )
        if first is not None or last is not None:
            field, otherwise = ("taken_utc", "taken_at") if absolute else ("taken_at", None)
            conditions.append(Between(field, first, last, otherwise))
    return conditions


def _not_whole(end: datetime | None) -> list[Between]:
    """Return the condition of partial dates whose period ends behind the end: they may have been taken later."""
    # A period ends at whole seconds, so "behind" is a second later at least.
    return [] if end is None else [Between("taken_until", gte=math.floor(seconds_of(end)) + 1)]


def _is_absolute(bound: datetime) -> bool:
    return bound.tzinfo is not None
