"""Resolution of a query: everything that its answer depends on is checked and named once, before anything is searched."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from lodestone.access.visibility import Visibility
from lodestone.catalog.reading import CatalogReader
from lodestone.config.compositions import DEFAULT_COMPOSITION, Composition, Role
from lodestone.config.profiles import Profile
from lodestone.config.settings import QuerySettings
from lodestone.errors import InvalidRequestError, UnknownNameError
from lodestone.facts.facts import FIELD, VERSION
from lodestone.query.asking.filters import FilterSources, query_filter, without_sources
from lodestone.query.asking.parts import Part, PartSet, editable, parts_of
from lodestone.query.asking.request_context import NOW, RequestContext
from lodestone.query.asking.resolved import ComposeOptions, GateOptions, GuideOptions, ResolvedQuery
from lodestone.query.asking.restrictions import filter_of
from lodestone.query.asking.searchable import CURRENT, IndexVersions, nothing_indexed, searchable_captions, searchable_spaces
from lodestone.query.asking.sets import alternatives_of, composed_of
from lodestone.query.asking.tree import Compose, Leaf, Query, Text, Where
from lodestone.query.words.checker import CheckedWords, QueryChecker
from lodestone.query.words.wishes import wishes_of
from lodestone.retrieval.fusion import FORMER_NAMES, WEIGHTED_SUM, current_name, find_fusion, former_name_warning
from lodestone.spaces.names import TAGS
from lodestone.store.algebra import EVERY_POINT, all_of, fields_of
from lodestone.store.base import Filter
from lodestone.text_encoders.plain import plain_words
from lodestone.text_encoders.text import normalise_query as normalise_query  # noqa: PLC0414 - imported from here elsewhere
from lodestone.text_encoders.text import visible
from lodestone_schemas.api import QueryNote, SearchFilters, SearchOptions, SearchRequest
from lodestone_schemas.collections import FieldKind

_OLD_FACTS: Final = (
    "an earlier version indexed some pictures, which cannot be asked for by place, time of the year and camera until the next "
    "`lodestone index`"
)
_UNCOMPARED: Final = (
    "only files of equal content are shown once: for pictures that look alike, run `lodestone duplicates find` first"
)


def deadline_of(options: SearchOptions, settings: QuerySettings, started: float, request_context: RequestContext) -> float:
    """Return the absolute deadline of a query, in seconds on `time.monotonic()`'s clock, less the answer's way back."""
    return started + (options.deadline_ms or settings.deadline_ms) / 1000 - request_context.way_back


def resolve(
    query: Query,
    options: SearchOptions,
    *,
    settings: QuerySettings,
    profile: Profile,
    aliases: Mapping[str, str],
    known_spaces: Mapping[str, str],
    known_generators: Sequence[str],
    catalog: CatalogReader,
    compositions: Mapping[str, Composition] = MappingProxyType({}),
    editors: Collection[str] = (),
    present: Callable[[], Collection[str]] = tuple,
    versions: IndexVersions = CURRENT,
    fields: Mapping[str, FieldKind] = MappingProxyType({}),
    started: float | None = None,
    request_context: RequestContext = NOW,
    checker: QueryChecker | None = None,
) -> ResolvedQuery:
    """Check a query and resolve its names.

    It reads the catalog (blocking) where the query names corpora or roots, collapses copies, or has a word that is known
    nowhere else.

    Args:
        query: The tree. Its `Where` nodes restrict it; the filters of `options` are not read.
        options: How to answer. Only a `SearchRequest` brings guides, the gate, learnt trust and so on, and only to words. To a
            composed query it brings learnt trust, and guides where pictures are edited.
        settings: Defaults of this home, before the profile's.
        profile: Defaults of the profile.
        aliases: Alias -> collection, read once.
        known_spaces: Space -> collection that the loaded projections belong to.
        known_generators: Names that may be asked for.
        compositions: Name -> how composed queries are answered. Without any, their own vectors are compared in all spaces.
        editors: Those of the generators that edit pictures.
        catalog: Knows corpora and roots.
        present: Returns the existing collections; called only where an alias names another version than the loaded one.
        versions: How the loaded versions differ from what the home is configured for.
        fields: Filter fields that further parts of pictures have.
        started: When the request arrived (`time.monotonic()`); now, if None.
        request_context: What the caller may see, whether there is room for guides, and the time for the way back.
        checker: Checks spelling and language of words; None to take them as they are.

    Raises:
        InvalidRequestError: the query is made of queries that are not answered yet, or a filter contradicts itself.
        UnknownNameError: no such fusion, space, generator, composition, corpus, root or field of a part.
    """
    wanted = options.composition if isinstance(options, SearchRequest) else None
    if wanted is not None and wanted not in compositions:
        raise UnknownNameError.among("composition", wanted, list(compositions))
    composition = compositions.get(wanted or DEFAULT_COMPOSITION)
    sources = FilterSources(catalog, request_context.visibility, fields)
    asked = _asked(query, sources, single=wanted is not None)
    parts = tuple(part for ones in asked.sets for part in ones)
    _check_compared(parts, composition)
    leaves: tuple[Leaf, ...] = tuple(part.leaf for part in parts)
    checked = CheckedWords("")
    if asked.leaf is not None:
        checked = _checked(asked.leaf, options, settings, request_context.visibility, checker)
        leaves = (Text(checked.text) if checked.corrected else asked.leaf,)
    text = checked.text
    words = options if text and isinstance(options, SearchRequest) else None
    fusion = options.fusion or settings.fusion or profile.fusion
    find_fusion(fusion)
    edits = composition is not None and composition.target == "guide" and isinstance(options, SearchRequest)
    edited = editable(parts) if edits and len(asked.sets) == 1 else []
    asking = options if isinstance(options, SearchRequest) and (text or edited) else None
    generators, guides = ((), 0) if asking is None else _generators(asking, settings, profile, known_generators)
    dropped: tuple[str, ...] = ()
    if edited and guides:
        able = tuple(name for name in generators if name in editors)
        dropped = () if able else (f"guides: none of the generators {', '.join(generators)} edits pictures",)
        generators, guides = (able, min(guides, len(edited))) if able else ((), 0)
    if guides and request_context.text_only:
        generators, guides, dropped = (), 0, (f"guides: {request_context.text_only}",)
    spaces, warnings = searchable_spaces(
        options.spaces or profile.spaces, aliases, known=known_spaces, former=versions.former, present=present
    )
    if not spaces and not warnings:
        warnings = [nothing_indexed(catalog, request_context.visibility)]
    captions: str | None = None
    of_captions: list[str] = []
    if spaces and any(leaf.text for leaf in leaves):
        captions, of_captions = searchable_captions(aliases, versions, catalog, present)
    filter_, alternatives, notes = _restricted(asked, leaves, sources)
    tags, of_tags = _tags(aliases, filter_, fields) if words is None or words.tags else (None, [])
    if parts and options.fusion is not None:
        notes = [*notes, f"fusion {options.fusion!r} is left out: composed queries are ranked by {WEIGHTED_SUM}"]
    if options.fusion is not None and options.fusion in FORMER_NAMES:
        notes = [*notes, former_name_warning(options.fusion)]
    if options.collapse and not catalog.has_compared_pictures():
        notes = [*notes, _UNCOMPARED]
    now = time.monotonic() if started is None else started
    return ResolvedQuery(
        query_id=str(uuid.uuid4()),
        request=options,
        leaves=leaves,
        text=text,
        spaces=spaces,
        captions=captions,
        tags=tags,
        fusion=WEIGHTED_SUM if parts else current_name(fusion),
        depths=_depths(settings.depth or profile.depth, (options.offset + options.limit) * (2 if options.collapse else 1)),
        offset=options.offset,
        limit=options.limit,
        filter=filter_,
        deadline=deadline_of(options, settings, now, request_context),
        explain=options.explain,
        collapse=options.collapse,
        topic=_topic(options if isinstance(options, SearchRequest) and parts else words),
        trust=isinstance(options, SearchRequest) and options.trust and (words is not None or bool(parts)),
        warnings=(*checked.warnings, *warnings, *of_captions, *of_tags, *notes),
        dropped=dropped,
        visibility=request_context.visibility,
        corrected=checked.corrected,
        language=checked.language,
        notes=() if checked.language else _wishes(leaves, parts, asked.filters),
        guiding=GuideOptions(
            generators=generators,
            named=asking is not None and asking.generators is not None,
            most=guides,
            seed=asking.seed if asking else 0,
            without=frozenset(asking.without_guides if asking else ()),
            outliers=not parts and _chosen(words.outliers if words else None, settings.outliers),
            outlier_threshold=settings.outlier_threshold,
            adaptive=_chosen(words.adaptive if words else None, settings.adaptive, profile.adaptive),
            budget=asking.budget if asking and asking.budget is not None else settings.budget,
        ),
        gating=GateOptions(
            on=not parts and _chosen(words.gate if words else None, settings.gate, profile.gate),
            threshold=settings.gate_threshold,
        ),
        composing=ComposeOptions(
            parts=parts,
            alternatives=alternatives,
            diversity=asked.diversity,
            composition=DEFAULT_COMPOSITION if composition is None else composition.name,
        ),
    )


def _wishes(leaves: Sequence[Leaf], parts: Sequence[Part], filters: Sequence[SearchFilters]) -> tuple[QueryNote, ...]:
    """Return what words ask for that options do; beside other parts, phrases say what is to be left out."""
    dated = any(one.taken_from is not None or one.taken_to is not None for one in filters)
    avoided = {number for number, part in enumerate(parts) if part.avoid}
    words = [leaf.text for number, leaf in enumerate(leaves) if leaf.text and number not in avoided]
    today = datetime.now().astimezone().date()
    return tuple(note for text in words for note in wishes_of(text, today=today, dates=not dated, parts=not parts))


def _checked(
    leaf: Leaf, options: SearchOptions, settings: QuerySettings, visibility: Visibility, checker: QueryChecker | None
) -> CheckedWords:
    """Return the leaf's words as they are searched; no words for a leaf without."""
    if not leaf.text:
        return CheckedWords("")
    words = plain_words(leaf.text)
    if checker is None:
        return CheckedWords(words)
    wish = options.spelling if isinstance(options, SearchRequest) else None
    return checker.check(words, spelling=(wish or settings.spelling) == "auto", visibility=visibility)


def _tags(aliases: Mapping[str, str], filter_: Filter | None, fields: Mapping[str, FieldKind]) -> tuple[str | None, list[str]]:
    """Return the collection of tags, if the filter can be answered in it, and a note about one that cannot.

    Its points have no fields of parts, so all of them would meet a negated condition.
    """
    live = aliases.get(TAGS)
    unknown = sorted(fields_of(filter_) & fields.keys())
    if live is None or not unknown:
        return live, []
    return None, [f"tags are left out: they do not know the field {', '.join(map(repr, unknown))}"]


def _check_compared(parts: Sequence[Part], composition: Composition | None) -> None:
    """Check that a composition compares pictures with each part.

    Raises:
        InvalidRequestError: it has no modality for one of them.
    """
    if composition is None or not composition.declared:
        return
    for part in parts:
        if not composition.of_role(part.role):
            words = part.role is Role.AUXILIARY
            raise InvalidRequestError(
                f"the composition {composition.name!r} compares no {'words' if words else 'pictures'}: part {part.name!r}",
                hint="leave the part out, choose another composition, or give this one a modality of role " + part.role.value,
                part=part.name,
            )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a query asks for.

    Attributes:
        filters: The filters above it.
        leaf: The only leaf of a query that is not composed.
        sets: The parts of each alternative of a composed one.
        within: The filter of each alternative.
        diversity: That of a composed one.
    """

    filters: tuple[SearchFilters, ...]
    leaf: Leaf | None
    sets: tuple[tuple[Part, ...], ...]
    within: tuple[Filter, ...]
    diversity: float = 0.0


def _asked(query: Query, sources: FilterSources, *, single: bool = False) -> _Asked:
    """Return what a query asks for.

    Args:
        query: The tree.
        sources: What its restrictions read.
        single: Whether a composition of one part stays one.

    Raises:
        InvalidRequestError: the query cannot be answered as it stands (sets.py).
        UnknownNameError: a restriction names a corpus or root that is unknown or not seen, or a field that no part has.
    """
    filters = []
    while isinstance(query, Where):
        filters.append(query.filters)
        query = query.query
    alternatives = alternatives_of(query, lambda node: filter_of(node, sources))
    within = tuple(one.within for one in alternatives)
    if len(alternatives) == 1 and len(rankers := alternatives[0].rankers) == 1:
        ranker = rankers[0]
        while isinstance(ranker, Compose) and not single and len(ranker.parts) == 1 and ranker.diversity == 0:
            part = ranker.parts[0][0]
            if not isinstance(part, Leaf | Compose):
                break
            ranker = part
        if isinstance(ranker, Leaf):
            return _Asked(tuple(filters), ranker, (), within)
        return _Asked(tuple(filters), None, (parts_of(ranker),), within, ranker.diversity)
    sets: list[tuple[Part, ...]] = []
    diversity = 0.0
    for number, one in enumerate(alternatives):
        composed = composed_of(one.rankers, [part.name for parts in sets for part in parts])
        sets.append(parts_of(composed, alternative=number))
        diversity = max(diversity, composed.diversity)
    return _Asked(tuple(filters), None, tuple(sets), within, diversity)


def _restricted(
    asked: _Asked, leaves: Sequence[Leaf], sources: FilterSources
) -> tuple[Filter | None, tuple[PartSet, ...], list[str]]:
    """Return the filter of a query, its alternatives where it has several, and notes for its sender.

    No picture is among those like it, in the alternative that asks for them.
    """
    if len(asked.sets) <= 1:
        base, notes = query_filter(asked.filters, sources, leaves)
        filter_ = _within(base, asked.within[0])
        return filter_, (), [*notes, *_of_facts([filter_], sources.catalog)]
    base, notes = query_filter(asked.filters, sources, ())
    alternatives = []
    for parts, within in zip(asked.sets, asked.within, strict=True):
        themselves = without_sources([part.leaf for part in parts])
        alternatives.append(PartSet(parts, _within(base, within, themselves)))
    return base, tuple(alternatives), [*notes, *_of_facts([one.filter for one in alternatives], sources.catalog)]


def _of_facts(filters: Iterable[Filter | None], catalog: CatalogReader) -> list[str]:
    """Return a note if filters ask for facts that some pictures lack in the collections."""
    asked = any(FIELD in fields_of(one) for one in filters)
    return [_OLD_FACTS] if asked and catalog.lacks_facts(VERSION) else []


def _within(base: Filter | None, *further: Filter) -> Filter | None:
    whole = all_of([base or EVERY_POINT, *further])
    return None if whole == EVERY_POINT else whole


def _chosen(*wishes: bool | None) -> bool:
    """Return the first wish that was expressed, by the request, the home or the profile; False without any."""
    return next((wish for wish in wishes if wish is not None), False)


def _topic(request: SearchRequest | None) -> str | None:
    if request is None or request.topic is None:
        return None
    topic = visible(request.topic)
    if not topic:
        raise InvalidRequestError("the topic is blank", hint="leave it out to have it found, or name one: lodestone trust show")
    return topic


def _generators(
    request: SearchRequest, settings: QuerySettings, profile: Profile, known: Sequence[str]
) -> tuple[tuple[str, ...], int]:
    named = request.generators if request.generators is not None else settings.generators
    generators = tuple(dict.fromkeys(profile.generators if named is None else named))
    for name in generators:
        if name not in known:
            raise UnknownNameError.among("generator", name, list(known))
    guides = request.guides if request.guides is not None else settings.guides
    guides = profile.guides if guides is None else guides
    return (generators, guides) if generators and guides else ((), 0)


def _depths(first: int, wanted: int) -> tuple[int, ...]:
    """Double the depth until at least one candidate lies beyond the page, so that the last page is known to be the last."""
    depths = [first]
    while depths[-1] <= wanted:
        depths.append(2 * depths[-1])
    return tuple(depths)
