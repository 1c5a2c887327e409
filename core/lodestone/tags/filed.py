"""Words under which pictures are filed: names of files and folders, the camera, the place, and what the day is called.

No model sees in a picture that it is from Norway, was taken at Easter 2017 or is called `IMG_1343`. Words of a query may say
so:

- *names*: numbers of at least four digits, codes of letters and digits, months, and words that no list of English words has;
- *hints*: English words that pictures do not show ("Norway", "trip").

Both are called *telling* here. Pictures that are filed under all content words of a query, or to which people wrote them as
tags or as names in captions, go before all others; then those that are filed under its names. Among them the models decide.
Hints alone give a bonus that a good match of the models outweighs: "a fjord in Norway" finds Norway, though no file is called a
fjord, and "a dog in summer" puts no folder `Summer 2019` before the dogs. Words that pictures show ("beach") stay with the
models altogether.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, Literal

from lodestone.catalog.pictures.taken import taken_local
from lodestone.catalog.records import ImageRecord
from lodestone.errors import ModelUnavailableError
from lodestone.gazetteer.places import known_place
from lodestone.retrieval.tag_matches import FiledPictures
from lodestone.sources.uris import relative_path_of
from lodestone.store.base import Neighbours, SparseVector
from lodestone.tags.terms import filed_term, sparse_vector, stem
from lodestone.tags.words import FUNCTION_WORDS, folded, split_words
from lodestone.text_encoders.english import english_counts, picture_words, words_of
from lodestone.text_encoders.labels import imagenet_labels
from lodestone.timeline.calendar import MONTHS, names_of_time

FiledBy = Literal["folder", "file", "camera", "date", "place"]
"""Where a word stands under which a picture is filed."""

MOST_FILED: Final = 1_000
"""Pictures that are filed under the telling words of a query, at most: what more pictures have in common tells nothing."""

_AMBIGUOUS: Final = frozenset({"march", "may"})  # months only beside a year or a day
_YEAR: Final = re.compile(r"\b(?:1[89]|20)\d\d\b")
_DAY: Final = re.compile(r"\d{1,2}(?:st|nd|rd|th)?")
_SPANS: Final = frozenset({"after", "before", "between", "since", "till", "until"})
_NEGATIONS: Final = frozenset({"but", "except", "excluding", "no", "not", "without"})
_PARTS: Final = re.compile(r"\d+|[^\W\d_]+(?:['’][^\W\d_]+)*")
_CAPITAL_INSIDE: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_EXTENSION: Final = re.compile(
    r"\.(?:arw|avif|bmp|cr[23]|dng|gif|hei[cf]|jpe?g?|jxl|mov|mp4|nef|orf|pef|png|raf|rw2|srw|svg|tiff?|webp)$", re.IGNORECASE
)
_QUOTES: Final = "\"'“”‘’«»,;:!?()[]{}"
_SHORTEST: Final = 3  # letters of a Latin word that says anything
_SHORTEST_NUMBER: Final = 4  # digits of a number that stands alone: years, and numbers that cameras give
_SHORT: Final = 3  # content words of a query that names things; longer ones describe a picture
_MOST_WORDS: Final = 200  # of a query; sums of its values stay below 2**24, where float32 is exact
# Words that say nothing of a picture: cameras and programs put them into names, and people into questions.
_VAGUE_WORDS: Final = """
best bmp camera close copy day dcim dsc dscn edit edited enjoy enjoying export favorite favourite file find first folder gif
give good great heic heif image images img jpeg jpg last like look looking made make making month more most my new next nice
old only photo photograph photographs photos pic pics picture pictures place please png pxl raw search see seen shot shots show
showing shown something take taken takes taking thing things tif tiff time took untitled want webp week where year years
年 月 日 号
"""
_VAGUE: Final = frozenset(_VAGUE_WORDS.split())
# Words that begin a name of several words and say nothing alone: "New York" is not York. They are one word with what follows.
_BEGINNING: Final = re.compile(
    r"\b((?:(?:east|great|las|los|new|north|rio de|saint|san|santa|south|st|united|west)[ .-]+)+)([^\W\d_]+)", re.IGNORECASE
)
# Names of days that are one word, because each of their words means other days, or none.
_DAYS: Final = re.compile(
    r"\b(?:new year(?:['’]?s)? eve|new year(?:['’]?s day)?|good friday|christmas eve|easter monday)\b", re.IGNORECASE
)
# Words in names of places and holidays that name neither.
_GENERIC_WORDS: Final = """
additional administrative autonomous capital central department district eastern federal general governorate in international
lieu lower municipality national northern of oblast prefecture province public region republic second southern special state
substitute territory the upper western
"""
_GENERIC: Final = frozenset(_GENERIC_WORDS.split())
# English nouns whose stems are also those of towns: who writes them without further names means the things.
_THINGS_WORDS: Final = """
alps angel angels arrow arrows basil batman bluff bouquet bouquets canal canals cork corks frankfurter frankfurters hamburger
hamburgers mine mines paradise peak peaks pine pines plain plains ruby shape split surprise tour tours tuna well wells
"""
_THINGS: Final = frozenset(_THINGS_WORDS.split())
_SPELLINGS: Final = (("labour", "labor"), ("honour", "honor"), ("defence", "defense"))


def filed_under(image: ImageRecord, root: str) -> Mapping[FiledBy, frozenset[str]]:
    """Return the stems of the words under which a picture is filed, by where they stand.

    Args:
        image: The picture.
        root: Name of its root: the indexed folder, or what is in its place.
    """
    folders, _, name = relative_path_of(image.uri).replace(os.sep, "/").rpartition("/")
    local = taken_local(image.taken_at, image.utc_offset_minutes, image.taken_precision) or ""
    place = known_place(image.latitude, image.longitude)
    country_code = None if place is None else place.country_code
    return {
        "folder": _stems(f"{root} {folders}"),
        "file": _stems(_EXTENSION.sub("", name)),
        "camera": _stems(f"{image.camera_make or ''} {image.camera_model or ''}"),
        "date": frozenset().union(*map(_stems_of_day, (local[:4], *names_of_time(local, image.latitude, country_code)))),
        "place": frozenset().union(*map(_stems_of_place, () if place is None else (*place.names, *place.other_names))),
    }


def filed_words(image: ImageRecord, root: str) -> frozenset[str]:
    """Return the stems of all words under which a picture is filed; see `filed_under`."""
    return frozenset().union(*filed_under(image, root).values())


def telling_words(text: str) -> frozenset[str]:
    """Return the stems of the names and hints of a query."""
    words = _content(text)
    return frozenset(words.names | words.hints)


@dataclass(frozen=True, slots=True)
class FiledQuery:
    """Query for the pictures that are filed under its words.

    A picture's score with one of the vectors is a whole number: 1 for each other word, `hint` for each hint, and `name` for
    each name. Each value is above all lower ones together.

    Attributes:
        vector: All of its content words.
        telling_vector: Its names and hints alone, with the same values.
        names: Number of names.
        hints: Number of hints.
        others: Number of its other content words.
    """

    vector: SparseVector
    telling_vector: SparseVector
    names: int
    hints: int
    others: int

    @property
    def hint(self) -> int:
        """Return the value of a hint."""
        return self.others + 1

    @property
    def name(self) -> int:
        """Return the value of a name."""
        return self.hint * (self.hints + 1)

    def split(self, found: Neighbours, most: int = MOST_FILED) -> FiledPictures:
        """Return the pictures by the words that they are filed under.

        A set is empty where it may be incomplete, because more pictures were found than were asked for.

        Args:
            found: What the search with `vector` or `telling_vector` found, best first.
            most: How many pictures it was asked for.
        """
        least = 0 if len(found.ids) < most else round(float(found.scores[-1]))
        scores = dict(zip(found.ids, map(round, found.scores.tolist()), strict=True))
        every = self.names * self.name + self.hints * self.hint + self.others
        whole = frozenset(image_id for image_id, score in scores.items() if score >= every > least)
        enough = self.names * self.name
        named = frozenset(image_id for image_id, score in scores.items() if score >= enough > least) - whole
        if self.names + self.hints + self.others > _SHORT:
            return FiledPictures(whole, named)
        # Hints are counted, or names where there are none: the value of a name is then that of a hint.
        held = {
            image_id: (score % self.name if self.hints else score) // self.hint
            for image_id, score in scores.items()
            if image_id not in whole and image_id not in named
        }
        best = max(held.values(), default=0)
        hinted = frozenset(image_id for image_id, count in held.items() if count == best and best * self.hint > least)
        return FiledPictures(whole, named, hinted)


def filed_query(text: str) -> FiledQuery | None:
    """Return the query for the pictures that are filed under a text's words; None without names and hints, or of very many."""
    words = _content(text)
    names, hints, others = words.names, words.hints, words.others
    if not (names or hints) or len(names) + len(hints) + len(others) > _MOST_WORDS:
        return None
    query = FiledQuery(sparse_vector({}), sparse_vector({}), len(names), len(hints), len(others))
    telling = {filed_term(word): float(query.hint) for word in hints}
    telling |= {filed_term(word): float(query.name) for word in names}
    values = telling | {filed_term(word): 1.0 for word in others}
    vector = sparse_vector(values)
    if len(vector.indices) < len(values):  # two words with the same code: sums of values would mean something else
        return None
    return replace(query, vector=vector, telling_vector=sparse_vector(telling))


@dataclass(slots=True)
class _Words:
    """Stems of a query's content words; no word is in two of the sets."""

    names: set[str] = field(default_factory=set)
    hints: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)


def _content(text: str) -> _Words:
    """Return the content words of a query.

    What is to be left out is none of them, and neither are times at which a span begins or ends: nothing that is filed under
    2010 was taken before 2010.
    """
    found = _Words()
    several_years = len(set(_YEAR.findall(text))) > 1
    words = list(_query_words(_BEGINNING.sub(_as_one_name, _DAYS.sub(_as_one_word, text))))
    for place, word in enumerate(words):
        before = next((other for other in reversed(words[:place]) if not (other in MONTHS or _DAY.fullmatch(other))), "")
        if word in _NEGATIONS and len(words) > 1:
            break
        is_month = word in MONTHS and (word not in _AMBIGUOUS or _is_beside_a_date(words, place))
        is_time = is_month or _YEAR.fullmatch(word) is not None
        if (is_time and (several_years or before in _SPANS)) or word in FUNCTION_WORDS or word in _SPANS or word in _VAGUE:
            continue
        if is_month or _is_name(word):
            found.names.add(stem(word))
        elif word in _AMBIGUOUS or _is_shown(word):
            found.others.add(stem(word))
        else:
            found.hints.add(stem(word))
    found.hints -= found.names
    found.others -= found.names | found.hints
    return found


def _query_words(text: str) -> Iterator[str]:
    """Yield the words of a query, and its codes as one word each; case-folded and without accents."""
    for chunk in text.replace("/", " ").replace("\\", " ").split():
        plain = _EXTENSION.sub("", chunk.strip(_QUOTES))
        if code := code_of(plain):
            yield code
        else:
            yield from (folded(match.group()) for match in split_words(plain))


def _is_beside_a_date(words: Sequence[str], place: int) -> bool:
    return any(_YEAR.fullmatch(word) or _DAY.fullmatch(word) for word in words[max(place - 1, 0) : place + 2])


@lru_cache(maxsize=16_384)
def _stems_of_place(name: str) -> frozenset[str]:
    """Return the stems of a place's name: "New York City" holds newyork and city, and not york."""
    return frozenset(map(stem, _plain_words(_BEGINNING.sub(_as_one_word, name)) - _GENERIC))


@lru_cache(maxsize=4_096)
def _stems_of_day(name: str) -> frozenset[str]:
    """Return the stems of one of a day's names, in both spellings; of names of several words without months and numbers."""
    words = _plain_words(_DAYS.sub(_as_one_word, name))
    if len(words) > 1:
        words = {word for word in words - _GENERIC if word not in MONTHS and not word[:1].isdigit()}
    words |= {other for pair in _SPELLINGS if words & set(pair) for other in pair}
    return frozenset(map(stem, words))


def _plain_words(name: str) -> set[str]:
    return {folded(word.group()) for word in split_words(name)}


def _as_one_word(match: re.Match[str]) -> str:
    return "".join(letter for letter in match.group() if letter.isalnum())


def _as_one_name(match: re.Match[str]) -> str:
    """Return the beginning of a query's name and what follows as one word, unless that says what pictures show: "a new car"."""
    return match.group() if _is_shown(folded(match[2])) else _as_one_word(match)


@lru_cache(maxsize=4_096)  # pictures share their folders and their cameras
def _stems(names: str) -> frozenset[str]:
    """Return the stems of the words of names, and of their parts.

    `OsloTrip_2016` holds oslotrip, oslo, trip, 2016 and, as a code, oslotrip2016. `IMG_1343-edited` also holds img1343.
    """
    words = (
        _plain_words(names) | _plain_words(_BEGINNING.sub(_as_one_word, names)) | _plain_words(_DAYS.sub(_as_one_word, names))
    )
    words |= {folded(part) for word in split_words(_CAPITAL_INSIDE.sub(" ", names)) for part in _PARTS.findall(word.group())}
    for chunk in names.replace("/", " ").split():
        parts = [match.group() for match in split_words(chunk)]
        words |= {code_of("_".join(parts[: end + 1])) for end, part in enumerate(parts) if part[-1:].isdigit()}
        words.add(code_of(chunk))
    return frozenset(map(stem, words - {""}))


def code_of(chunk: str) -> str:
    """Return the letters and digits of what is written with both, as names that cameras give: `IMG_1343`, `5D`; else ""."""
    plain = "".join(folded(word.group()) for word in split_words(chunk))
    return plain if plain.isascii() and any(map(str.isdigit, plain)) and any(map(str.isalpha, plain)) else ""


def _is_name(word: str) -> bool:
    """Return whether a word is a code, a long number, or in no list of English words."""
    if word[-1:].isdigit() or word[:1].isdigit():
        return len(word) >= _SHORTEST_NUMBER or not word.isdigit()
    if word.isascii() and len(word) < _SHORTEST:
        return False
    try:
        return word not in english_counts() and not _is_shown(word)
    except ModelUnavailableError:
        return False  # without a list of words, nothing tells what a name is


def _is_shown(word: str) -> bool:
    """Return whether a word says what pictures show, or nothing."""
    if (word.isascii() and len(word) < _SHORTEST) or word.isdigit():
        return True
    shown = _shown_words()
    return not shown or word in shown or word in _THINGS


@lru_cache(maxsize=1)
def _shown_words() -> AbstractSet[str]:
    """Return the words that say what pictures show; empty where a list of words is not installed."""
    try:
        return picture_words() | words_of(imagenet_labels())
    except ModelUnavailableError:
        return frozenset()
