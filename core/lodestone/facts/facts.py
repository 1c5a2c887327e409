"""Facts of a picture that are exact: names of its place and of its time, its camera, its shape, and what is known of it.

A fact is a text NAME=VALUE in the filter field `facts` of the picture's points, with the value in plain small letters:
`place=norway`, `during=christmas`, `camera=canon`, `shape=portrait`, `has=time`. So one field with one index holds facts of
every kind, and a request names a fact as it names a field (`where` of its filters).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from string import capwords
from typing import Final

from lodestone.catalog.pictures.taken import taken_local
from lodestone.catalog.records import ImageFields, ImageRecord
from lodestone.errors import InvalidRequestError
from lodestone.gazetteer.places import known_place, other_names
from lodestone.store.base import AnyOf, Condition, Filter, MatchAny
from lodestone.text_encoders.plain import tidied, without_accents
from lodestone.timeline.calendar import names_of_time

FIELD: Final = "facts"
"""Filter field of points that holds the facts."""

VERSION: Final = 1
"""Raised whenever the same picture would have other facts: collections are then written again, from stored outputs."""

PANORAMA: Final = 2.0  # times that the longer side is as long as the shorter one, at least
_SQUARE: Final = 1.05  # times that it is, at most
_APOSTROPHES: Final = re.compile(r"['’]")
_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")
_OTHER_TIMES: Final[Mapping[str, str]] = {"fall": "autumn", "xmas": "christmas", "labour day": "labor day"}


@dataclass(frozen=True, slots=True)
class FactKind:
    """One kind of facts.

    Attributes:
        meaning: What a picture with the value is, for lists of kinds.
        folded: Returns a value as points hold it.
        known: All values that there are; empty where they cannot be listed.
    """

    meaning: str
    folded: Callable[[str], str]
    known: tuple[str, ...] = ()


def folded(name: str) -> str:
    """Return a name in small letters without accents and apostrophes, its words between single spaces: "st gallen"."""
    return " ".join(without_accents(_BETWEEN_WORDS.sub(" ", _APOSTROPHES.sub("", tidied(name).casefold()))).split())


def folded_place(name: str) -> str:
    """Return the folded name of a place, the usual one where the given one is another: "united states" of "USA"."""
    plain = folded(name).removeprefix("the ")
    return _other_places().get(plain, plain)


def folded_time(name: str) -> str:
    """Return the folded name of a time, the usual one where the given one is another: "autumn" of "fall"."""
    plain = folded(name)
    return _OTHER_TIMES.get(plain, plain)


KINDS: Final[Mapping[str, FactKind]] = {
    "place": FactKind("taken in this town, city, state or country", folded_place),
    "during": FactKind("taken in this month or season, on this weekday or holiday", folded_time),
    "camera": FactKind("taken with a camera of this maker or model", folded),
    "shape": FactKind("of this shape", folded, ("landscape", "panorama", "portrait", "square")),
    "has": FactKind("of which this is known", folded, ("camera", "place", "time")),
}
"""The kinds of facts by name."""


def facts_of(picture: ImageFields | ImageRecord) -> list[str]:
    """Return the facts of a picture, each once, in the order of `KINDS`."""
    return list(_values_of(picture))


def shown_value(picture: ImageFields | ImageRecord, fact: str) -> str | None:
    """Return the value of a fact as people write it, e.g. "Tromsø" of `place=tromso`.

    None for a fact that the picture has not, or that only repeats another one in other words: "EOS 5D" of a Canon EOS 5D.
    """
    return _values_of(picture).get(fact)


def _values_of(picture: ImageFields | ImageRecord) -> dict[str, str | None]:
    """Return the values of a picture's facts as people write them; None for those that only repeat others."""
    local = taken_local(picture.taken_at, picture.utc_offset_minutes, picture.taken_precision) or ""
    place = known_place(picture.latitude, picture.longitude)
    times = names_of_time(local, picture.latitude, None if place is None else place.country_code)
    cameras, short_cameras = _cameras(picture.camera_make or "", picture.camera_model or "")
    values = [
        *(("place", name, name) for name in (() if place is None else place.names)),
        *(("during", name, capwords(name)) for name in times),
        *(("camera", name, name) for name in cameras),
        *(("camera", name, None) for name in short_cameras),
        *(("shape", name, name) for name in _shapes(picture.width, picture.height)),
        *(("has", name, name) for name, known in (("camera", cameras), ("place", place), ("time", local)) if known),
    ]
    found: dict[str, str | None] = {}
    for kind, name, shown in values:
        if folded(name):
            found.setdefault(_fact(kind, name), shown)
    return found


def facts_condition(name: str, values: Sequence[object]) -> Condition:
    """Return the condition that a picture has at least one of the values of a kind.

    Args:
        name: One of `KINDS`.
        values: Values as people write them. One with commas stands for all of its parts together: "Paris, Texas".

    Raises:
        InvalidRequestError: a value is no text, has no letters or digits, or is none of those that there are.
    """
    alternatives = [tuple(_read(name, value)) for value in values]
    if all(len(facts) == 1 for facts in alternatives):
        return MatchAny(FIELD, tuple(dict.fromkeys(fact for (fact,) in alternatives)))
    return AnyOf(tuple(Filter(must=tuple(MatchAny(FIELD, (fact,)) for fact in facts)) for facts in alternatives))


def _read(name: str, value: object) -> Iterator[str]:
    kind = KINDS[name]
    if not isinstance(value, str):
        raise InvalidRequestError(
            f"{name!r} takes words, and {value!r} is a number", hint=f'give it as a text: "{value}"', field=name
        )
    parts = [part for part in value.split(",") if folded(part)]
    if not parts:
        raise InvalidRequestError(f"{name}={value!r} names nothing", hint=f"a picture is {kind.meaning}", field=name)
    for part in parts:
        if kind.known and kind.folded(part) not in kind.known:
            raise InvalidRequestError(
                f"there is no {name} {part.strip()!r}",
                hint=f"one of {', '.join(kind.known)}",
                field=name,
                known=list(kind.known),
            )
        yield _fact(name, part)


def _fact(name: str, value: str) -> str:
    return f"{name}={KINDS[name].folded(value)}"


@lru_cache(maxsize=1)
def _other_places() -> Mapping[str, str]:
    """Return folded names by the further names that people write."""
    return {folded(other): folded(name).removeprefix("the ") for other, name in other_names()}


def _cameras(make: str, model: str) -> tuple[list[str], list[str]]:
    """Return the maker of a camera and the model with it, and what else people call these: "NIKON CORPORATION", "D750"."""
    maker = make.split(maxsplit=1)[0] if folded(make) else ""
    if not folded(model):
        return [name for name in (maker,) if name], [make]
    first, _, rest = model.strip().partition(" ")
    bare = rest.strip() if rest.strip() and folded(first) == folded(maker) else model.strip()
    return [name for name in (maker, f"{maker} {bare}".strip()) if name], [bare, make]


def _shapes(width: int, height: int) -> Iterator[str]:
    if width < 1 or height < 1:
        return
    longer = max(width, height) / min(width, height)
    if longer <= _SQUARE:
        yield "square"
    else:
        yield "landscape" if width > height else "portrait"
    if longer >= PANORAMA:
        yield "panorama"
