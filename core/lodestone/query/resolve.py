"""What exactly will be done for a request? Everything is checked, named and resolved once, before anything is searched."""

from __future__ import annotations

import time
import unicodedata
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone.config.profiles import Profile
from lodestone.config.settings import QuerySettings
from lodestone.errors import InvalidRequestError, UnknownNameError
from lodestone.query.filters import restriction
from lodestone.query.stages import CatalogReader
from lodestone.retrieval.fusion import find_fusion
from lodestone.store.base import Filter
from lodestone_schemas.api import MAX_QUERY_CHARS, SearchOptions, SearchRequest

CAPTIONS_ALIAS: Final = "captions"
TAGS_ALIAS: Final = "tags"
_UNSEEN: Final = frozenset({"Cc", "Cs"})  # Unicode categories: controls, lone surrogates
_REFRESH: Final = "run `lodestone index` to refresh"


@dataclass(frozen=True, slots=True)
class ResolvedQuery:
    """A request, ready to be answered.

    Attributes:
        query_id: Names the query in events and logs.
        text: Normalised words; empty for a search by picture.
        spaces: Space -> collection of the version that the query is projected with; those that can be searched now.
        captions: Collection of captions, if there is one.
        tags: Collection of tags, if there is one.
        generators: Engines to ask for guides.
        named: Whether the request itself named them.
        guides: Guides at most.
        fusion: Key of `FUSIONS`.
        depths: Candidates from each list, ascending: the last is searched, the others order it (see `fuse_in_tiers`).
        filter: For the store; None when nothing is restricted.
        deadline: Absolute, seconds on `time.monotonic()`'s clock.
        collapse: Whether the best of known copies stands for all of them.
        topic: Whose trust counts, if the client names one.
        trust: Whether learnt trust weighs the spaces.
        gate: Whether simple queries stop after the text pass.
        gate_threshold: Simple from this predicted AP on; None for the model's own.
        outliers: Whether guides unlike the others are left out.
        outlier_threshold: None for the fitted one.
        adaptive: Whether guides are drawn until the first results are stable.
        budget: Most that paid generators may cost.
        warnings: What was left out, and what to do about it.
        visibility: Of whoever asks.
    """

    query_id: str
    text: str
    spaces: Mapping[str, str]
    captions: str | None
    tags: str | None
    generators: tuple[str, ...]
    named: bool
    guides: int
    fusion: str
    depths: tuple[int, ...]
    offset: int
    limit: int
    filter: Filter | None
    deadline: float
    seed: int
    explain: bool
    collapse: bool
    topic: str | None
    trust: bool
    gate: bool
    gate_threshold: float | None
    outliers: bool
    outlier_threshold: float | None
    adaptive: bool
    budget: float | None
    warnings: tuple[str, ...]
    visibility: Visibility = EVERYTHING

    @property
    def depth(self) -> int:
        """Candidates taken from each list."""
        return self.depths[-1]


def resolve(
    options: SearchOptions,
    *,
    settings: QuerySettings,
    profile: Profile,
    aliases: Mapping[str, str],
    known_spaces: Mapping[str, str],
    known_generators: Sequence[str],
    catalog: CatalogReader,
    present: Callable[[], Collection[str]] = tuple,
    started: float | None = None,
    visibility: Visibility = EVERYTHING,
) -> ResolvedQuery:
    """Check a request and resolve its names. Reads the catalog (blocking) where the request names corpora or roots.

    Args:
        options: A `SearchRequest`, or the options of a search by picture.
        settings: Defaults of this home, before the profile's.
        profile: Defaults of the profile.
        aliases: Alias -> collection, read once.
        known_spaces: Space -> collection that the loaded projections belong to.
        known_generators: Names that may be asked for.
        catalog: Knows corpora and roots.
        present: Tells which collections there are; asked only where an alias names another version than the loaded one.
        started: When the request arrived (`time.monotonic()`); now, if None.
        visibility: Of whoever asks: nothing else is searched.

    Raises:
        InvalidRequestError: the query is blank or too long, or a filter contradicts itself.
        UnknownNameError: no such fusion, space, generator, corpus or root.
    """
    fusion = options.fusion or settings.fusion or profile.fusion
    find_fusion(fusion)
    text, guides = "", 0
    generators: tuple[str, ...] = ()
    words = options if isinstance(options, SearchRequest) else None
    if words is not None:
        text = normalise_query(words.query)
        generators, guides = _guiding(words, settings, profile, known_generators)
    spaces, warnings = _searchable(options.spaces, profile, aliases, known_spaces, present)
    wanted, notes = restriction(options.filters, catalog, visibility)
    now = time.monotonic() if started is None else started
    return ResolvedQuery(
        query_id=str(uuid.uuid4()),
        text=text,
        spaces=spaces,
        captions=aliases.get(CAPTIONS_ALIAS),
        tags=aliases.get(TAGS_ALIAS) if words is None or words.tags else None,
        generators=generators,
        named=words is not None and words.generators is not None,
        guides=guides,
        fusion=fusion,
        depths=_depths(settings.depth or profile.depth, (options.offset + options.limit) * (2 if options.collapse else 1)),
        offset=options.offset,
        limit=options.limit,
        filter=wanted,
        deadline=now + (options.deadline_ms or settings.deadline_ms) / 1000,
        seed=words.seed if words else 0,
        explain=options.explain,
        collapse=options.collapse,
        topic=_topic(words),
        trust=words is not None and words.trust,
        gate=_chosen(words.gate if words else None, settings.gate, profile.gate),
        gate_threshold=settings.gate_threshold,
        outliers=_chosen(words.outliers if words else None, settings.outliers),
        outlier_threshold=settings.outlier_threshold,
        adaptive=_chosen(words.adaptive if words else None, settings.adaptive, profile.adaptive),
        budget=words.budget if words and words.budget is not None else settings.budget,
        warnings=(*warnings, *notes),
        visibility=visibility,
    )


def normalise_query(query: str) -> str:
    """The words alone: Unicode NFC, without control characters and lone surrogates, single spaces.

    Raises:
        InvalidRequestError: nothing is left, or more than `MAX_QUERY_CHARS` characters are.
    """
    spaced = "".join(" " if one.isspace() else one for one in unicodedata.normalize("NFC", query))
    text = " ".join("".join(one for one in spaced if unicodedata.category(one) not in _UNSEEN).split())
    # Joiners and other format characters matter inside emoji and many scripts, but alone they say nothing.
    if all(one == " " or unicodedata.category(one) == "Cf" for one in text):
        raise InvalidRequestError("the query is empty", hint="say in a few words what the picture shows")
    if len(text) > MAX_QUERY_CHARS:
        raise InvalidRequestError(
            f"the query has {len(text)} characters, at most {MAX_QUERY_CHARS} are allowed",
            hint="say in a few words what the picture shows",
            characters=len(text),
            most=MAX_QUERY_CHARS,
        )
    return text


def _chosen(*wishes: bool | None) -> bool:
    """The first wish that was expressed: of the request, the home, the profile."""
    return next((wish for wish in wishes if wish is not None), False)


def _topic(request: SearchRequest | None) -> str | None:
    if request is None or request.topic is None:
        return None
    topic = " ".join(request.topic.split())
    if not topic:
        raise InvalidRequestError("the topic is blank", hint="leave it out to have it found, or name one: lodestone trust show")
    return topic


def _guiding(
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


def _searchable(
    asked: Sequence[str] | None,
    profile: Profile,
    aliases: Mapping[str, str],
    known: Mapping[str, str],
    present: Callable[[], Collection[str]],
) -> tuple[dict[str, str], list[str]]:
    """Space -> collection, always that of the loaded version: what a query is projected with is what it is compared with.

    While another version is being promoted, the loaded one is searched on in its own collection, until that is dropped.
    """
    spaces: dict[str, str] = {}
    warnings = []
    wanted = list(dict.fromkeys(asked or profile.spaces))
    if wanted and not aliases.keys() & set(wanted) and set(wanted) <= known.keys():
        return {}, ["nothing is indexed yet; run `lodestone index PATH`"]
    for space in wanted:
        if space not in known:
            raise UnknownNameError.among("space", space, list(known))
        live = aliases.get(space)
        if live is None:
            warnings.append(f"space {space!r} is left out: nothing is indexed in it; {_REFRESH}")
        elif live != known[space] and known[space] not in present():
            warnings.append(
                f"space {space!r} is left out: its index {live!r} is of another version than {known[space]!r}; {_REFRESH}"
            )
        else:
            spaces[space] = known[space]
    return spaces, warnings


def _depths(first: int, wanted: int) -> tuple[int, ...]:
    """Doubled until there is at least one candidate beyond the page, so that its end is known to be the end."""
    depths = [first]
    while depths[-1] <= wanted:
        depths.append(2 * depths[-1])
    return tuple(depths)
