"""Plain form of words: what they are compared by, however they were typed.

Full-width letters and ligatures become plain letters (NFKC), typographic quotes and dashes those of a keyboard, and emoji
their names. Characters that nobody sees are left out: soft hyphens, zero-width characters, marks of direction, variants.
Accents stay, because encoders of many languages need them; `without_accents` is for lists of English words, which have none.

The form is for comparing alone. What people typed is shown and recorded as they typed it.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Any, Final

_QUOTES: Final = dict.fromkeys(map(ord, "‘’‚‛′ʼ`´"), "'") | dict.fromkeys(map(ord, "“”„‟″«»"), '"')
_DASHES: Final = dict.fromkeys(map(ord, "‐‑‒–−﹣"), "-") | dict.fromkeys(map(ord, "—―﹘"), " - ")
_SIGNS: Final = dict.fromkeys(map(ord, "©®™℠"), " ")  # NFKC makes letters of two of them: "LegoTM"
_UNSEEN: Final = dict.fromkeys(
    [
        *(0x00AD, 0x034F, 0x061C, 0x180E, 0x200B, 0x200E, 0x200F, 0x20E3, 0xFEFF),
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2070),
        *range(0xFE00, 0xFE10),
    ]
)
_FIRST_JOINED: Final = 0x0590  # scripts from here on, and emoji, need joiners; Latin, Greek and Cyrillic letters do not
_JOINERS: Final = re.compile("[\u200c\u200d]")
_FIRST_EMOJI: Final = 0x2300  # before it are arrows, © and digits, which no name makes clearer
_TONE: Final = re.compile(r"(?:_(?:light|medium-light|medium|medium-dark|dark)_skin_tone)+")
_LETTERS: Final = str.maketrans({"ø": "o", "æ": "ae", "œ": "oe", "ß": "ss", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"})


def tidied(text: str) -> str:
    """Return words of form NFKC with plain quotes and dashes and without characters that nobody sees; emoji stay.

    The words themselves are returned where nothing would be left.
    """
    if text.isascii():
        return text
    plain = text.translate(_SIGNS).translate(_QUOTES).translate(_DASHES)
    plain = unicodedata.normalize("NFKC", plain).translate(_QUOTES)  # "＇" becomes "'" by NFKC, and "ʼn" a quote and a letter
    plain = " ".join(_JOINERS.sub(_joiner, plain.translate(_UNSEEN)).split())
    return plain or text


def plain_words(text: str) -> str:
    """Return the plain form of words, between single spaces; the words themselves where nothing would be left."""
    if text.isascii():
        return text
    return " ".join(tidied(_named(text)).split()) or text


@lru_cache(maxsize=16_384)
def without_accents(word: str) -> str:
    """Return a word in small Latin letters without their accents: "zürich" is "zurich". Other scripts stay as they are."""
    if word.isascii():
        return word
    bare: list[str] = []
    for char in unicodedata.normalize("NFD", word.translate(_LETTERS)):
        if unicodedata.combining(char) and bare and bare[-1].isascii():
            continue
        bare.append(char)
    return unicodedata.normalize("NFC", "".join(bare))


def _joiner(match: re.Match[str]) -> str:
    before = match.string[match.start() - 1 : match.start()]
    return match.group() if before and ord(before) >= _FIRST_JOINED and before != " " else ""


def _named(text: str) -> str:
    """Return the text with the names of its emoji in their places; of equal ones in a row, one."""
    if not any(ord(char) >= _FIRST_EMOJI and unicodedata.category(char) in {"So", "Sk", "Po", "Lo"} for char in text):
        return text
    import emoji

    names: list[str] = []

    def name(chars: str, data: dict[str, Any]) -> str:
        if ord(chars[0]) < _FIRST_EMOJI:
            return chars
        names.append(_TONE.sub("", str(data["en"]).strip(":")).replace("_", " "))
        return f"\0{len(names) - 1}\0"

    named = emoji.replace_emoji(text, replace=name)
    rows = re.split("\0([0-9]+)\0", named)
    parts = [rows[0]]
    for place in range(1, len(rows), 2):
        own = names[int(rows[place])]
        again = place > 1 and not rows[place - 1].strip() and own == names[int(rows[place - 2])]
        parts += ["" if again else f" {own} ", rows[place + 1]]
    return "".join(parts)
