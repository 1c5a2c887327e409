"""Facts of a picture that are exact: names of its place and of its time, its camera, its shape, and what is known of it.

A fact is a text NAME=VALUE with the value in plain small letters: `place=norway`, `during=christmas`, `camera=canon`,
`shape=portrait`, `has=time`. The points of a picture hold the codes of its facts in one filter field, so facts of every kind
need one index, and a request names a fact as it names a field (`where` of its filters). Codes are hashes: a store may keep
bytes of replaced points for a while, and no text of a picture shall be among them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from lodestone.catalog.pictures.taken import taken_local
from lodestone.catalog.records import ImageFields, ImageRecord
from lodestone.errors import InvalidRequestError
from lodestone.gazetteer.places import known_place, other_names
from lodestone.store.base import AnyOf, Condition, Filter, MatchAny
from lodestone.text_encoders.plain import tidied, without_accents
from lodestone.timeline.calendar import names_of_time, shown_name

FIELD: Final = "facts"
"""Filter field of points that holds the codes of facts."""

VERSION: Final = 1
"""Raised whenever the same picture would have other facts: collections are then written again, from stored outputs."""

_PANORAMA: Final = 2.0  # times that the longer side is as long as the shorter one, at least
_SQUARE: Final = 1.05  # times that it is, at most
_APOSTROPHES: Final = re.compile(r"['’]")
_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")
_OTHER_TIMES: Final[Mapping[str, str]] = {"fall": "autumn", "xmas": "christmas", "labour day": "labor day"}
_MOST_PARTS: Final = 8  # of a place's name: "Montmartre, Paris, France"
# Beginnings of what cameras write as their maker, and its usual name, where that is not the first word.
_MAKERS: Final = (
    ("asahi", "Pentax"),
    ("eastman kodak", "Kodak"),
    ("fuji", "Fujifilm"),
    ("hewlett packard", "HP"),
    ("konica minolta", "Konica Minolta"),
    ("om digital", "OM System"),
    ("phase one", "Phase One"),
    ("research in motion", "BlackBerry"),
    ("seiko epson", "Epson"),
)
# Makers that models of others begin with: "PENTAX K-1" by Ricoh.
_BRANDS: Final = frozenset({"hp", "kodak", "leica", "minolta", "nokia", "pentax", "ricoh", "sony"})
_NO_NAMES: Final = frozenset({"", "default", "n a", "na", "none", "null", "undefined", "unknown"})
_ENDS: Final = re.compile(r"^[\W_]+|[\s_,;-]+$")


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
    """Return the folded name of a place, without its article: "netherlands" of "The Netherlands"."""
    return folded(name).removeprefix("the ")


def folded_time(name: str) -> str:
    """Return the folded name of a time, the usual one where there are several: "autumn" of "fall"."""
    return _OTHER_TIMES.get(folded(name), folded(name))


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


def shown_fact(picture: ImageFields | ImageRecord, code: str) -> tuple[str, str] | None:
    """Return the value of the fact with a code, and the value as people write it: ("tromso", "Tromsø").

    None for a fact that the picture has not, or that only repeats another one in other words: "EOS 5D" of a Canon EOS 5D.
    """
    for fact, shown in _values_of(picture).items():
        if shown is not None and code_of(fact) == code:
            return fact.partition("=")[2], shown
    return None


@lru_cache(maxsize=16_384)  # pictures share most of their facts
def code_of(fact: str) -> str:
    """Return what points hold of a fact: its kind and a hash, e.g. `place:0c1f8f3b9a27de54`."""
    return f"{fact.partition('=')[0]}:{blake2b(fact.encode(), digest_size=8).hexdigest()}"


def _values_of(picture: ImageFields | ImageRecord) -> dict[str, str | None]:
    """Return the values of a picture's facts as people write them; None for those that only repeat others."""
    local = taken_local(picture.taken_at, picture.utc_offset_minutes, picture.taken_precision) or ""
    place = known_place(picture.latitude, picture.longitude)
    times = names_of_time(local, picture.latitude, None if place is None else place.country_code)
    cameras, short_cameras = _cameras(picture.camera_make or "", picture.camera_model or "")
    values = [
        *(("place", name, name) for name in (() if place is None else place.names)),
        *(("during", name, shown_name(name)) for name in (_OTHER_TIMES.get(name, name) for name in times)),
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
        values: Values as people write them. Of a place with commas, all parts together count as well: "Paris, Texas".

    Raises:
        InvalidRequestError: a value is no text, has no letters or digits or too many parts, or is none of those that there are.
    """
    texts = list(dict.fromkeys(_checked(name, value) for value in values))
    whole = MatchAny(FIELD, tuple(dict.fromkeys(code for text in texts for code in _meant(name, text))))
    in_parts = [parts for text in texts if len(parts := _parts(name, text)) > 1]
    if not in_parts:
        return whole
    together = (Filter(must=tuple(MatchAny(FIELD, _meant(name, part)) for part in parts)) for parts in in_parts)
    return AnyOf((Filter(must=(whole,)), *together))


def _checked(name: str, value: object) -> str:
    kind = KINDS[name]
    if not isinstance(value, str):
        raise InvalidRequestError(
            f"{name!r} takes words, and {value!r} is a number", hint=f'give it as a text: "{value}"', field=name
        )
    if not folded(value):
        raise InvalidRequestError(f"{name}={value!r} names nothing", hint=f"a picture is {kind.meaning}", field=name)
    if kind.known and kind.folded(value) not in kind.known:
        raise InvalidRequestError(
            f"there is no {name} {value.strip()!r}", hint=f"one of {', '.join(kind.known)}", field=name, known=list(kind.known)
        )
    return value


def _parts(name: str, value: str) -> list[str]:
    """Return the parts of a place's name, which commas part; of any other value, the whole."""
    parts = [part for part in value.split(",") if folded(part)] if name == "place" else [value]
    if len(parts) > _MOST_PARTS:
        raise InvalidRequestError(
            f"a place has at most {_MOST_PARTS} parts, and this one has {len(parts)}",
            hint="give several places apart",
            field=name,
        )
    return parts


def _meant(name: str, value: str) -> tuple[str, ...]:
    """Return the code of the fact with a value, and of that with the usual name of a place that has several: "USA".

    A town may be called what elsewhere is another name of a country, so points hold places as they are called there.
    """
    fact = _fact(name, value)
    usual = _other_places().get(folded_place(value)) if name == "place" else None
    return (code_of(fact),) if usual is None else (code_of(fact), code_of(f"{name}={usual}"))


def _fact(name: str, value: str) -> str:
    return f"{name}={KINDS[name].folded(value)}"


@lru_cache(maxsize=1)
def _other_places() -> Mapping[str, str]:
    """Return folded names by the further names that people write."""
    return {folded_place(other): folded_place(name) for other, name in other_names()}


def _cameras(make: str, model: str) -> tuple[list[str], list[str]]:
    """Return maker and model of a camera, and what else people call these: "NIKON CORPORATION", "D750"."""
    maker, plain = _maker_of(make), _stripped(model)
    first, _, rest = plain.partition(" ")
    brand = first if folded(first) in _BRANDS and folded(rest) else ""
    if not plain or folded(plain) == folded(maker):
        names, others = [maker], []
    elif brand and folded(brand) != folded(maker):
        names, others = [maker, brand, plain], [rest]
    else:
        bare = rest if folded(rest) and folded(first) == folded(maker) else plain
        names, others = [maker, f"{maker} {bare}"], [bare]
    words = maker.split()
    return [name.strip() for name in names if name.strip()], [*others, *(words if len(words) > 1 else ()), _stripped(make)]


def _maker_of(make: str) -> str:
    """Return the usual name of a maker: "Kodak" of "EASTMAN KODAK COMPANY"; the first word of one that is not known."""
    plain = folded(make)
    usual = next((name for beginning, name in _MAKERS if plain.startswith(beginning)), None)
    return usual or _stripped(make).partition(" ")[0]


def _stripped(name: str) -> str:
    """Return a name without signs at its ends; "" for one that says that nothing is known."""
    return "" if folded(name) in _NO_NAMES else " ".join(_ENDS.sub("", name).split())


def _shapes(width: int, height: int) -> Iterator[str]:
    if width < 1 or height < 1:
        return
    longer = max(width, height) / min(width, height)
    if longer <= _SQUARE:
        yield "square"
    else:
        yield "landscape" if width > height else "portrait"
    if longer >= _PANORAMA:
        yield "panorama"
