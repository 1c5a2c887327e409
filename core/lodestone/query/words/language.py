"""Recognition of a query's language: by its script, and for Latin letters by the commonest words of each language.

Queries are short, so models of letter sequences that are made for documents err often. The question here is narrower: is this
English, or what else is it? Words that are no English words count for the languages that have them; words of both count for
neither alone. A query is taken for another language only where that explains more of its words than English does.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final

from lodestone.text_encoders.english import WORD, bare, english_counts
from lodestone.text_encoders.plain import without_accents

ENGLISH: Final = "en"
_HEADING: Final = re.compile(r"\[(\w+) (\w+)\]")
_MOSTLY: Final = 0.5  # share of letters that decides on the script
_RARE: Final = 10_000_000  # an English word below this count is weak evidence for English: many are loan words and names
_LETTER: Final = 0.6  # evidence of a letter that English does not have
_UNKNOWN: Final = 0.25  # evidence of a word that English does not have, for a language that has others of the query's
_LEAST: Final = 1.0  # evidence that another language needs at least

# First word of a letter's Unicode name -> ISO 639-1 code and name of the language that is mostly written so.
_SCRIPTS: Final[Mapping[str, tuple[str, str]]] = {
    "HIRAGANA": ("ja", "Japanese"),
    "KATAKANA": ("ja", "Japanese"),
    "CJK": ("zh", "Chinese"),
    "HANGUL": ("ko", "Korean"),
    "CYRILLIC": ("ru", "Russian or another language in Cyrillic letters"),
    "GREEK": ("el", "Greek"),
    "ARABIC": ("ar", "Arabic or another language in Arabic letters"),
    "HEBREW": ("he", "Hebrew"),
    "DEVANAGARI": ("hi", "Hindi or another language in Devanagari letters"),
    "BENGALI": ("bn", "Bengali"),
    "TAMIL": ("ta", "Tamil"),
    "TELUGU": ("te", "Telugu"),
    "THAI": ("th", "Thai"),
    "GEORGIAN": ("ka", "Georgian"),
    "ARMENIAN": ("hy", "Armenian"),
}
_LATIN: Final = "LATIN"
# Letters that few of the languages in `latin.txt` have.
_LETTERS: Final[Mapping[str, str]] = {
    "ß": "de",
    "ä": "de sv fi",
    "ö": "de sv fi tr hu",
    "ü": "de tr hu",
    "å": "sv da no",
    "æ": "da no",
    "ø": "da no",
    "ñ": "es",
    "ã": "pt vi",
    "õ": "pt vi",
    "ç": "fr pt tr",
    "œ": "fr",
    "ğ": "tr",
    "ı": "tr",
    "ş": "tr",
    "ł": "pl",
    "ż": "pl",
    "ś": "pl",
    "ę": "pl",
    "ř": "cs",
    "ě": "cs",
    "ů": "cs",
    "ő": "hu",
    "ű": "hu",
    "ă": "ro vi",
    "ș": "ro",
    "ț": "ro",
    "đ": "vi",
    "ư": "vi",
    "ơ": "vi",
}


@dataclass(frozen=True, slots=True)
class Language:
    """A language.

    Attributes:
        code: ISO 639-1 code, e.g. `de`.
        name: Its name in English.
    """

    code: str
    name: str


@lru_cache(maxsize=1)
def latin_languages() -> Mapping[Language, frozenset[str]]:
    """Return each language in Latin letters, but for English, with its commonest words, case-folded; read once."""
    text = files("lodestone").joinpath("data", "languages", "latin.txt").read_text("utf-8")
    found: dict[Language, frozenset[str]] = {}
    for block in text.split("\n[")[1:]:
        heading, _, words = block.partition("\n")
        match = _HEADING.fullmatch(f"[{heading}")
        if match is None:
            raise ValueError(f"latin.txt: {heading!r} is no heading")
        found[Language(*match.groups())] = frozenset(words.casefold().split())
    return found


def foreign_language(text: str) -> Language | None:
    """Return the language that a query is in; None for English, and where there is too little to tell.

    Raises:
        ModelUnavailableError: the list of English words is not installed.
    """
    scripts = Counter(_script(char) for char in text if char.isalpha())
    total = scripts.total()
    if not total:
        return None
    if scripts[_LATIN] < _MOSTLY * total:
        return _of_script(scripts)
    return _of_words([bare(match.group()) for match in WORD.finditer(text)])


def _script(char: str) -> str:
    return unicodedata.name(char, "?").split()[0].partition("-")[0]


def _of_script(scripts: Counter[str]) -> Language | None:
    # Japanese is written in Han characters and kana together: any kana decide.
    order = sorted(scripts, key=lambda script: (script not in {"HIRAGANA", "KATAKANA"}, -scripts[script]))
    known = next((script for script in order if script in _SCRIPTS), None)
    return Language(*_SCRIPTS[known]) if known else Language("und", "no language that Lodestone knows by its letters")


def _of_words(words: list[str]) -> Language | None:
    counts, languages = english_counts(), latin_languages()
    evidence: defaultdict[Language, float] = defaultdict(float)
    english = unknown = alone = 0.0
    foreign: set[str] = set()  # what counts for another language and is no English word
    for word in words:
        if word.isdigit() or (len(word) == 1 and word.isascii() and word not in {"a", "i"}):
            continue
        loan = without_accents(word) if word not in counts else word  # English has "cafe" and "zurich" without accents
        is_english = loan in counts
        speakers = [language for language, common in languages.items() if word in common]
        letters = {code for char in word for code in _LETTERS.get(char, "").split()}
        if is_english and not speakers:
            alone += word.isascii()
            english += 1.0 if counts[loan] >= _RARE else 0.5
        for language in speakers:
            # A word of both languages counts little for the other: "die", "in", "hat", "rose".
            evidence[language] += 0.5 if is_english else 1.0
        if is_english and speakers:
            english += 0.5 if counts[loan] >= _RARE else 0.25
        if not is_english:
            for language in languages:
                if language.code in letters and language not in speakers:
                    evidence[language] += _LETTER
            unknown += not speakers
            foreign |= {word} if speakers or letters else set()
    if not evidence or (alone and _is_one_accented(foreign)):
        return None
    best, score = max(evidence.items(), key=lambda item: item[1])
    return best if score >= _LEAST and score + _UNKNOWN * unknown > english else None


def _is_one_accented(words: set[str]) -> bool:
    """Return True for a single word with accents: English has borrowed it, or it is a name ("São Paulo at night")."""
    return len(words) == 1 and not next(iter(words)).isascii()
