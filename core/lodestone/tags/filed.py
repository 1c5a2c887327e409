"""Words under which pictures are filed: names of files and folders, the camera, the year and the month.

No model sees in a picture that it is from Norway, was taken in 2017 or is called `IMG_1343`. Words of a query that say such
things are *telling*: those that pictures do not show, numbers of at least four digits, and codes of letters and digits.
Pictures that are filed under all telling words of a query, or to which people wrote them as tags or as names in captions, go
before all others, and among them the models decide. Where no picture is filed under all of them, those that are filed under the
most get a bonus that a good match of the models outweighs: "a fjord in Norway" finds Norway, though no file is called a fjord.
Words that pictures show ("beach") stay with the models: a picture in the folder `beach 2019` may show a dinner.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from lodestone.catalog.pictures.taken import taken_local
from lodestone.catalog.records import ImageRecord
from lodestone.errors import ModelUnavailableError
from lodestone.retrieval.tag_matches import FiledPictures
from lodestone.sources.uris import relative_path_of
from lodestone.store.base import Neighbours, SparseVector
from lodestone.tags.terms import filed_term, sparse_vector, stem
from lodestone.tags.words import FUNCTION_WORDS, folded, split_words
from lodestone.text_encoders.english import picture_words, words_of
from lodestone.text_encoders.labels import imagenet_labels

FiledBy = Literal["folder", "file", "camera", "date"]
"""Where a word stands under which a picture is filed."""

MOST_FILED: Final = 1_000
"""Pictures that are filed under the telling words of a query, at most: what more pictures have in common tells nothing."""

_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_YEAR: Final = re.compile(r"\b(?:1[89]|20)\d\d\b")
_SPANS: Final = frozenset({"after", "before", "between", "since", "till", "until"})
_DAY: Final = re.compile(r"\d{1,2}")
_PARTS: Final = re.compile(r"\d+|[^\W\d_]+(?:['’][^\W\d_]+)*")
_CAPITAL_INSIDE: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_EXTENSION: Final = re.compile(r"\.\w{1,5}$")
_SHORTEST: Final = 3  # letters of a telling Latin word
_SHORTEST_NUMBER: Final = 4  # digits of a telling number that stands alone: years, and numbers that cameras give
_SHORT: Final = 3  # content words of a query that names things; longer ones describe a picture
_MOST_WORDS: Final = 200  # of a query; sums of its values stay below 2**24, where float32 is exact
# Words that say nothing of a picture, because cameras and programs put them into names, or that mean something else as often.
_VAGUE_WORDS: Final = """
best bmp camera copy dcim dsc dscn edit edited enjoy enjoying export favorite favourite file folder gif good great heic heif
image images img jpeg jpg last like march may my new next nice photo photograph photographs photos pic pics picture pictures
png pxl raw shot something thing things tif tiff untitled webp
"""
_VAGUE: Final = frozenset(_VAGUE_WORDS.split())


def filed_under(image: ImageRecord, root: str) -> Mapping[FiledBy, frozenset[str]]:
    """Return the stems of the words under which a picture is filed, by where they stand.

    Args:
        image: The picture.
        root: Name of its root: the indexed folder, or what is in its place.
    """
    folders, _, name = relative_path_of(image.uri).replace(os.sep, "/").rpartition("/")
    local = taken_local(image.taken_at, image.utc_offset_minutes, image.taken_precision) or ""
    month = _MONTHS[int(local[5:7]) - 1] if len(local) > len("2017-") else ""
    return {
        "folder": _stems(f"{root} {folders}"),
        "file": _stems(_EXTENSION.sub("", name)),
        "camera": _stems(f"{image.camera_make or ''} {image.camera_model or ''}"),
        "date": frozenset({local[:4], stem(month)}) - {""},
    }


def filed_words(image: ImageRecord, root: str) -> frozenset[str]:
    """Return the stems of all words under which a picture is filed; see `filed_under`."""
    return frozenset().union(*filed_under(image, root).values())


def telling_words(text: str) -> frozenset[str]:
    """Return the stems of the telling words of a query."""
    return frozenset(_content(text)[0])


@dataclass(frozen=True, slots=True)
class FiledQuery:
    """Query for the pictures that are filed under its telling words.

    A picture's score with one of the vectors is a whole number: 1 for each other word, and the number of these plus 1 for each
    telling word.

    Attributes:
        vector: All of its content words.
        telling_vector: Its telling words alone, with the same values.
        telling: Number of telling words.
        others: Number of its other content words.
    """

    vector: SparseVector
    telling_vector: SparseVector
    telling: int
    others: int

    def split(self, found: Neighbours, most: int = MOST_FILED) -> FiledPictures:
        """Return the pictures by how many of the words they are filed under.

        A set is empty where it may be incomplete, because more pictures were found than were asked for.

        Args:
            found: What the search with `vector` or `telling_vector` found, best first.
            most: How many pictures it was asked for.
        """
        if not found.ids:
            return FiledPictures()
        least = 0 if len(found.ids) < most else round(float(found.scores[-1]))
        held = {
            image_id: divmod(round(score), self.others + 1)
            for image_id, score in zip(found.ids, found.scores.tolist(), strict=True)
        }
        best = max(telling for telling, _ in held.values())
        whole = frozenset(image_id for image_id, words in held.items() if words == (self.telling, self.others))
        if least >= self.telling * (self.others + 1) + self.others:
            whole = frozenset()
        if least >= best * (self.others + 1):
            return FiledPictures(whole)
        reached = frozenset(image_id for image_id, (telling, _) in held.items() if telling == best)
        if best < self.telling:
            return FiledPictures(hinted=reached if self.telling + self.others <= _SHORT else frozenset())
        return FiledPictures(whole, reached - whole)


def filed_query(text: str) -> FiledQuery | None:
    """Return the query for the pictures that are filed under a text's telling words; None where it has none, or very many."""
    telling, others = _content(text)
    if not telling or len(telling) + len(others) > _MOST_WORDS:
        return None
    named = {filed_term(word): float(len(others) + 1) for word in telling}
    values = named | {filed_term(word): 1.0 for word in others}
    vector = sparse_vector(values)
    if len(vector.indices) < len(values):  # two words with the same code: sums of values would mean something else
        return None
    return FiledQuery(vector, sparse_vector(named), len(telling), len(others))


def _content(text: str) -> tuple[set[str], set[str]]:
    """Return the stems of a text's telling words, and of its other content words.

    Times at which a span begins or ends are neither: nothing that is filed under 2010 was taken before 2010.
    """
    telling: set[str] = set()
    others: set[str] = set()
    several_years = len(set(_YEAR.findall(text))) > 1
    before = ""
    for chunk in text.split():
        if code := _code(_EXTENSION.sub("", chunk)):
            telling.add(stem(code))
            before = code
            continue
        for word in (folded(match.group()) for match in split_words(chunk)):
            is_time = word in _MONTHS or _YEAR.fullmatch(word) is not None
            is_end = is_time and (several_years or before in _SPANS)
            before = before if word in _MONTHS or _DAY.fullmatch(word) else word
            if not (is_end or word in FUNCTION_WORDS or word in _SPANS or word in _VAGUE):
                (telling if _is_telling(word) else others).add(stem(word))
    return telling, others - telling


@lru_cache(maxsize=4_096)  # pictures share their folders and their cameras
def _stems(names: str) -> frozenset[str]:
    """Return the stems of the words of names, and of their parts.

    `OsloTrip_2016` holds oslotrip, oslo, trip, 2016 and, as a code, oslotrip2016.
    """
    words = {folded(word.group()) for word in split_words(names)}
    words |= {folded(part) for word in split_words(_CAPITAL_INSIDE.sub(" ", names)) for part in _PARTS.findall(word.group())}
    words |= {_code(chunk) for chunk in names.replace("/", " ").split()}
    return frozenset(map(stem, words - {""}))


def _code(chunk: str) -> str:
    """Return the letters and digits of what is written with both, as names that cameras give: `IMG_1343`, `5D`; else ""."""
    plain = "".join(folded(word.group()) for word in split_words(chunk))
    return plain if any(map(str.isdigit, plain)) and any(map(str.isalpha, plain)) else ""


def _is_telling(word: str) -> bool:
    if word.isdigit():
        return len(word) >= _SHORTEST_NUMBER
    if word.isascii() and len(word) < _SHORTEST:
        return False
    shown = _shown_words()
    return bool(shown) and word not in shown


@lru_cache(maxsize=1)
def _shown_words() -> AbstractSet[str]:
    """Return the words that say what pictures show; empty where a list of words is not installed."""
    try:
        return picture_words() | words_of(imagenet_labels())
    except ModelUnavailableError:
        return frozenset()
