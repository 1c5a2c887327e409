"""English words with their frequencies, and the splitting of texts into words.

The list with counts is that of SymSpell (82,765 words, from Google's books and SCOWL), read from the package `symspellpy`
without importing it. It is mostly British and older than many things. `data/words` has what it lacks: American words, rarer
words, names, brands (`english.txt`), and things that people search pictures for (`things.txt`). Two lists of our own lie in
`data/languages`: what pictures show, and common words of other languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Final

from lodestone.models.packages import package_file
from lodestone.text_encoders.plain import without_accents

WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_INSTALL: Final = "pip install symspellpy==6.10.1"
_SHORTEST_STEM: Final = 2
_COMMON: Final = 1_000_000  # count that a common word gets which the list with counts lacks


@lru_cache(maxsize=1)
def english_counts() -> Mapping[str, int]:
    """Return word -> number of occurrences in a large collection of books; lower case. Read once (tens of milliseconds).

    Raises:
        ModelUnavailableError: the package is not installed.
    """
    path = package_file("symspellpy", "frequency_dictionary_en_*.txt", install=_INSTALL)
    fields = path.read_text("utf-8-sig").split()  # word, count, word, count: one split costs half of one a line
    return dict(zip(fields[::2], map(int, fields[1::2]), strict=True))


@lru_cache(maxsize=1)
def further_words() -> Mapping[str, int]:
    """Return the words that `english_counts` lacks; lower case. Read once (tens of milliseconds).

    The number is a rough count for common words, and 0 for rare ones and names, which are words but no corrections.
    """
    folder = files("lodestone").joinpath("data", "words")
    things = (line for line in folder.joinpath("things.txt").read_text("utf-8").splitlines() if not line.startswith("#"))
    words = dict.fromkeys(map(without_accents, " ".join(things).split()), 0)
    _, common, known = re.split(r"^\[\w+\]$", folder.joinpath("english.txt").read_text("utf-8"), flags=re.MULTILINE)
    words |= dict.fromkeys(known.split(), 0)
    return words | dict.fromkeys(common.split(), _COMMON)


@lru_cache(maxsize=1)
def picture_words() -> frozenset[str]:
    """Return the words that say what pictures show, with their regular forms that `english_counts` has; read once.

    Raises:
        ModelUnavailableError: the list of English words is not installed.
    """
    text = files("lodestone").joinpath("data", "languages", "pictures.txt").read_text("utf-8")
    counts = english_counts()
    plain = [word for line in text.splitlines() if not line.startswith("#") for word in line.split()]
    forms = {form for word in plain if len(word) > _SHORTEST_STEM for form in _regular_forms(word)}
    return frozenset(plain) | {form for form in forms if form in counts}


def _regular_forms(word: str) -> Iterator[str]:
    stem = word.removesuffix("e")
    yield from (f"{word}s", f"{word}es", f"{stem}ed", f"{stem}ing", f"{stem}er", f"{stem}y")
    yield from (f"{word}{word[-1]}ed", f"{word}{word[-1]}ing")
    if word.endswith("y"):
        yield from (f"{word[:-1]}ies", f"{word[:-1]}ied")
    if word.endswith("ing"):
        yield from (f"{word[:-3]}s", f"{word[:-3]}ed")


def words_of(texts: Iterable[str]) -> set[str]:
    """Return the distinct words of texts, case-folded, without a possessive ending."""
    return {bare(match.group()) for text in texts for match in WORD.finditer(text)}


def bare(word: str) -> str:
    """Return a word case-folded, with a plain apostrophe and without `'s`."""
    return word.casefold().replace("’", "'").removesuffix("'s")
