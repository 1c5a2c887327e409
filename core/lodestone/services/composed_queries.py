"""Composed queries as requests name them: parts, regions of pictures, and parts that are taken over from an earlier query.

What a caller does not see does not exist here either: pictures of other corpora, and other people's queries.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.access.caller import Caller
from lodestone.access.visibility import EVERYTHING
from lodestone.composed.weights import ModalityWeights
from lodestone.errors import InvalidRequestError, UnknownNameError
from lodestone.imaging.regions import cropped
from lodestone.query.asking.parts import OWN, PICTURE, UNLIKE, WITHOUT, WORDS, free_name, kind_of
from lodestone.query.asking.requested_sets import ranking_members
from lodestone.query.asking.tree import Compose, Image, Leaf, Origin, Picture, Text, Vector
from lodestone.query.words.phrases import affirmed, change_of
from lodestone.services.sessions.recording import wait_until_recorded
from lodestone.text_encoders.text import normalise_query
from lodestone_schemas.api import MAX_PARTS, QueryPart, QueryRegion, SearchOptions, SearchRequest

if TYPE_CHECKING:
    from PIL import Image as PillowImage

    from lodestone.config.compositions import Composition
    from lodestone.home.runtime import Runtime
    from lodestone.query.engine import QueryEngine
    from lodestone.query_log.trace import Trace
    from lodestone.services.pictures import PictureUseCases
    from lodestone.services.sessions.session import HomeSession

USUAL: Final[Mapping[str, float]] = {WORDS: 0.8, PICTURE: 1.0, WITHOUT: 0.5, UNLIKE: 0.5}
"""Weight of all parts of a kind together, where the request gives none: parts of one kind share it. That of words beside a
picture was chosen on validation data (research/studies/composed.py)."""

EVEN: Final[Mapping[str, float]] = {WORDS: 1.0, PICTURE: 1.0, WITHOUT: 0.5, UNLIKE: 0.5}
"""The same where the composition has set or learnt weights, which say how much words and pictures count."""


def usual_weights(runtime: Runtime) -> dict[str, Mapping[str, float]]:
    """Return the weights that parts get where a request gives none, by composition and by kind; `default` is first. Blocking.

    Raises:
        ConfigurationError: learnt weights cannot be read.
    """
    from lodestone.config.compositions import all_compositions

    known = all_compositions(runtime.settings.compositions, runtime.profile)
    return {name: EVEN if runtime.chosen_weights(one) else USUAL for name, one in known.items()}


_TAKEN_OVER: Final = ("filters", "match", "spaces", "collapse", "diversity", "composition")
"""Options of the earlier query that hold where a refinement gives none."""

_SIDE: Final = 512  # pixels that the shorter side of a region should have, more than any model reads
LARGEST_SIDE: Final = 2_048
"""Pixels that the shorter side of a picture is decoded at, at most, where a region of it counts."""
_EDGE: Final = 1e-6  # rounding of a region that ends at the edge


@dataclass(frozen=True, slots=True)
class _Named:
    """One part of a query, by name; `avoid` as in `query.parts.Part`."""

    name: str
    leaf: Leaf
    avoid: bool


def is_composed(request: SearchOptions) -> bool:
    """Return whether a request asks for anything beside its words, or the one picture that it comes with."""
    if not isinstance(request, SearchRequest):
        return False
    return bool(
        request.like
        or request.unlike
        or request.without
        or request.weights
        or request.refine_of
        or request.reference
        or request.drop
        or request.region
        or request.diversity
        or request.composition
    )


class ComposedQueries:
    """Makes queries of requests, within what their callers see.

    Args:
        session: The opened home.
        pictures: Looks up pictures.
    """

    def __init__(self, session: HomeSession, pictures: PictureUseCases) -> None:
        self._session = session
        self._pictures = pictures

    async def query_of(
        self, request: SearchRequest, caller: Caller, uploads: Sequence[PillowImage.Image] = ()
    ) -> tuple[Compose, SearchRequest]:
        """Return the composed query that a request asks for, and the request with what it takes over from an earlier one.

        Args:
            request: The request; `is_composed` or with pictures.
            caller: Whoever asks.
            uploads: Pictures that came with it, upright RGB.

        Raises:
            InvalidRequestError: there is no part or are too many, a weight or region makes no sense, or a part of the earlier
                query cannot be taken over.
            NotFoundError: a picture or the earlier query is unknown or not seen.
            ImageError: a picture of which a region counts cannot be decoded.
        """
        _check_diversity(request.diversity)
        asked, named = request.composition, list[_Named]()
        weights: Mapping[str, float] = {}
        if request.refine_of is not None:
            trace = await self._earlier(request.refine_of, caller)
            request, weights = _taken_over(request, trace)
            engine = await self._session.engine(warm=False)
            named = _without_dropped(earlier_parts(trace, engine.encoder.collections), request.drop, trace.query_id)
            if request.reference is not None:
                _check_result(request.reference, trace)
                named = [part for part in named if kind_of(part.leaf, avoid=part.avoid) != PICTURE]
        elif request.reference is not None or request.drop:
            given = "reference" if request.reference is not None else "drop"
            raise InvalidRequestError(f"{given} is given without refine_of", hint="name the query that is to be refined")
        pictures = await self._new_pictures(request, caller, uploads)
        kinds = {kind_of(part.leaf, avoid=part.avoid) for part in named} | {
            kind_of(leaf, avoid=avoid) for leaf, avoid in pictures
        }
        wish = request.phrases or self._session.runtime.settings.query.phrases
        wanted, avoided = _words_of(request, phrases=PICTURE in kinds and wish == "auto")
        for leaf, avoid in [*((Text(one), False) for one in wanted), *pictures, *((Text(one), True) for one in avoided)]:
            named.append(_Named(free_name(kind_of(leaf, avoid=avoid), [part.name for part in named]), leaf, avoid))
        await self._check_seen([part.leaf for part in named], caller)
        weights = _weights_of(named, request, weights)
        engine = await self._session.engine(warm=False)
        usual = EVEN if _composition_of(engine, asked, request).weights else USUAL
        return _composed(named, weights, request.diversity, usual=usual), request.model_copy(update={"weights": weights})

    async def _earlier(self, query_id: str, caller: Caller) -> Trace:
        from lodestone.query_log.trace import load_trace

        await wait_until_recorded(self._session, query_id)
        return await asyncio.to_thread(load_trace, self._session.runtime.catalog, query_id, caller.visibility)

    async def _new_pictures(
        self, request: SearchRequest, caller: Caller, uploads: Sequence[PillowImage.Image]
    ) -> list[tuple[Leaf, bool]]:
        """Return the pictures that the request itself names, and whether each is to be avoided."""
        leaves: list[tuple[Leaf, bool]] = []
        indexed = list(dict.fromkeys([*([] if request.reference is None else [request.reference]), *request.like]))
        if request.region is None:
            leaves += [(Image(image_id), False) for image_id in indexed]
            leaves += [(Picture(await asyncio.to_thread(_pixels_of, image)), False) for image in uploads]
        else:
            if len(indexed) + len(uploads) != 1:
                given = f"for {len(indexed) + len(uploads)} pictures" if indexed or uploads else "without a picture"
                raise InvalidRequestError(
                    f"a region is given {given}", hint="name one picture with it: refine the query to add others"
                )
            leaves.append((await self._region_of(request.region, caller, indexed, uploads), False))
        return leaves + [(Image(image_id), True) for image_id in dict.fromkeys(request.unlike)]

    async def _region_of(
        self, region: QueryRegion, caller: Caller, indexed: Sequence[str], uploads: Sequence[PillowImage.Image]
    ) -> Picture:
        box = _checked_region(region)
        if uploads:
            return Picture(await asyncio.to_thread(cropped, uploads[0], box), Origin(region=box))

        def read() -> NDArray[np.uint8]:
            from lodestone.services.pictures import whole_content

            side = math.ceil(min(LARGEST_SIDE, _SIDE / min(box[2], box[3])))
            content = whole_content(self._pictures.content(indexed[0], caller))
            return cropped(self._session.runtime.decode(content, min_side=side), box)

        return Picture(await asyncio.to_thread(read), Origin(indexed[0], box))

    async def _check_seen(self, leaves: Iterable[Leaf], caller: Caller) -> None:
        if caller.visibility == EVERYTHING:
            return
        for leaf in leaves:
            if isinstance(leaf, Image):
                await asyncio.to_thread(self._pictures.image, leaf.image_id, caller)


def _composition_of(engine: QueryEngine, asked: str | None, request: SearchRequest) -> Composition:
    """Return the composition of a request, which may be that of the query that it refines.

    Args:
        engine: Knows the compositions.
        asked: The composition that the request itself names.
        request: The request with what it takes over.

    Raises:
        UnknownNameError: there is no such composition.
    """
    try:
        return engine.composition(request.composition)
    except UnknownNameError as error:
        if asked is not None or request.composition is None:
            raise
        message = f"the query that is refined was asked by the composition {request.composition!r}, which is gone"
        raise UnknownNameError(message, hint=f"name another: composition=default; {error.hint}", **error.details) from error


def _pixels_of(image: PillowImage.Image) -> NDArray[np.uint8]:
    """Return (h, w, 3) uint8 RGB pixels. Blocking: a large picture takes tens of milliseconds."""
    return np.asarray(image.convert("RGB"))


def _words_of(request: SearchRequest, *, phrases: bool) -> tuple[list[str], list[str]]:
    """Return the words that the request itself gives to look for, and those to avoid.

    Args:
        request: The request.
        phrases: Whether phrases of change are understood.
    """
    wanted = [normalise_query(request.query)] if request.query.strip() else []
    avoided = [normalise_query(words) for words in request.without]
    if not phrases:
        return wanted, avoided
    change = change_of(wanted[0]) if wanted else None
    if change is not None:
        wanted, avoided = [change.wanted], [*change.avoided, *avoided]
    wanted += [content for words in avoided if (content := affirmed(words))]
    return list(dict.fromkeys(filter(None, wanted))), [words for words in avoided if affirmed(words) is None]


def earlier_parts(trace: Trace, collections: Mapping[str, str]) -> list[_Named]:
    """Return the parts of a recorded query.

    Pictures that were not indexed, and regions, are taken over by their vectors: the pictures themselves are not kept.

    Args:
        trace: The record.
        collections: Space -> collection of the version that is searched today.

    Raises:
        InvalidRequestError: the vectors of a picture are of former versions of all spaces.
    """
    if trace.kind == "words":
        return [_Named(WORDS, Text(trace.text), False)]
    parts = [QueryPart.model_validate(part) for part in trace.plan.get("parts", [])]
    if not parts:  # a search by one picture
        parts = [QueryPart(name=PICTURE, weight=1.0, image_id=trace.plan.get("image_id"))]
    return [_Named(part.name, _leaf_of(part, trace, collections), part.avoid) for part in parts]


def _leaf_of(part: QueryPart, trace: Trace, collections: Mapping[str, str]) -> Leaf:
    if part.text is not None:
        return Text(part.text)
    if part.image_id is not None and part.region is None:
        return Image(part.image_id)
    vectors = {
        one.space: -one.vector if part.avoid else one.vector
        for guide in (part.name, part.name + OWN)  # the picture's own vector goes before one composed of it and words
        for one in trace.searches
        if one.guide == guide and collections.get(one.space) == one.collection
    }
    if not vectors:
        raise InvalidRequestError(
            f"part {part.name!r} of query {trace.query_id!r} was a picture, whose vectors are of another version by now",
            hint="give the picture again, or drop the part",
            part=part.name,
        )
    region = None if part.region is None else (part.region.x, part.region.y, part.region.w, part.region.h)
    return Vector(vectors, Origin(part.image_id or "", region))


def _taken_over(request: SearchRequest, trace: Trace) -> tuple[SearchRequest, Mapping[str, float]]:
    """Return the request with the options of the earlier query where it gives none of its own, and the earlier weights.

    Raises:
        InvalidRequestError: the sets of the earlier query hold words or pictures.
    """
    given = request.model_fields_set
    earlier = SearchRequest.model_validate({name: value for name, value in trace.request.items() if name in _ALL})
    if any(ranking_members(earlier.match)):
        raise InvalidRequestError(
            f"query {trace.query_id!r} ranks by words or pictures in its sets (match), which are no parts that can be changed",
            hint="ask it anew with what is to change",
        )
    kept = {name: getattr(earlier, name) for name in _TAKEN_OVER if name not in given}
    return request.model_copy(update=kept), earlier.weights


_ALL: Final = frozenset(SearchRequest.model_fields)


def _without_dropped(parts: Sequence[_Named], drop: Sequence[str], query_id: str | None) -> list[_Named]:
    names = [part.name for part in parts]
    for name in drop:
        if name not in names:
            raise InvalidRequestError(
                f"query {query_id!r} has no part {name!r}", hint=f"its parts: {', '.join(names)}", part=name, known=names
            )
    return [part for part in parts if part.name not in drop]


def _check_result(image_id: str, trace: Trace) -> None:
    if image_id not in trace.ranking.ids:
        raise InvalidRequestError(
            f"picture {image_id!r} is no result of query {trace.query_id!r}",
            hint="take the id from its answer, or name the picture in `like`",
            image_id=image_id,
        )


def _check_diversity(diversity: float) -> None:
    if not 0 <= diversity <= 1:
        raise InvalidRequestError(
            f"the diversity is {diversity!r}", hint="0 for the most similar pictures, up to 1 for the most different"
        )


def _weights_of(parts: Sequence[_Named], request: SearchRequest, earlier: Mapping[str, float]) -> dict[str, float]:
    """Return the weights that users have given to parts of the query, in this request or in one before.

    Raises:
        InvalidRequestError: the request gives a weight to a part that there is not.
    """
    names = [part.name for part in parts]
    for name in request.weights:
        if name not in names:
            raise InvalidRequestError(
                f"the query has no part {name!r} to weigh", hint=f"its parts: {', '.join(names)}", part=name, known=names
            )
    kept = {name: weight for name, weight in earlier.items() if name in names and name not in request.drop}
    return {**kept, **request.weights}


def _composed(
    parts: Sequence[_Named], weights: Mapping[str, float], diversity: float, *, usual: Mapping[str, float] = USUAL
) -> Compose:
    """Return the query of these parts, with the weights that users have given, or else the usual ones.

    Raises:
        InvalidRequestError: there is no part to look for or are too many, or a weight makes no sense.
    """
    if not parts:
        raise InvalidRequestError("the query is empty", hint="say in a few words what the picture shows, or name a picture")
    kinds = {part.name: kind_of(part.leaf, avoid=part.avoid) for part in parts}
    silent = [kind for name, kind in kinds.items() if name not in weights]
    amounts = {name: weights[name] if name in weights else usual[kind] / silent.count(kind) for name, kind in kinds.items()}
    ModalityWeights.of(amounts)  # refuses what is no weight, by name
    kept = [part for part in parts if amounts[part.name] > 0]
    if len(kept) > MAX_PARTS:
        raise InvalidRequestError(
            f"the query has {len(kept)} parts, at most {MAX_PARTS} are answered",
            hint="leave some out; a refinement drops parts of the query before (drop)",
            parts=len(kept),
            most=MAX_PARTS,
        )
    if all(part.avoid for part in kept):
        raise InvalidRequestError(
            "the query says only what to avoid", hint="say what to look for as well: words, or a picture that it is like"
        )
    signed = tuple((part.leaf, -amounts[part.name] if part.avoid else amounts[part.name]) for part in kept)
    return Compose(signed, tuple(part.name for part in kept), diversity)


def _checked_region(region: QueryRegion) -> tuple[float, float, float, float]:
    box = (region.x, region.y, region.w, region.h)
    inside = all(math.isfinite(value) for value in box) and min(box) >= 0
    inside = inside and region.x + region.w <= 1 + _EDGE and region.y + region.h <= 1 + _EDGE
    if not inside or region.w == 0 or region.h == 0:
        shown = ",".join(f"{value:g}" for value in box)
        raise InvalidRequestError(
            f"the region {shown} is empty, or not inside of the picture",
            hint="give x, y, width and height as shares of the picture, e.g. 0.25,0.25,0.5,0.5 for its middle",
        )
    return box
