"""Detection of the encoding of short texts that people's programs left without saying it.

A mark at the beginning decides, then zero bytes, which UTF-16 has, then UTF-8. What is none of these was written with one byte
a letter: each of a few encodings is tried, and that under which the text looks most like words is taken. Bytes that are no text
under any of them are refused.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from typing import Final

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_ONE_BYTE: Final = ("cp1252", "mac_roman", "cp1250", "iso8859_2", "cp1251", "cp1253")  # the first of equals is taken
# "Oma’s", "don’t", "l’été": in other encodings the mark is a letter that fits nearly as well.
_APOSTROPHES: Final = re.compile(r"[a-z]’(?:s|t|m|d|ll|re|ve)\b|\b(?:[ldjncmst]|qu)’\w", re.IGNORECASE)
_APOSTROPHE_SCORE: Final = 1.0
_LEAST_SHARE: Final = 0.8  # of one script in a text of UTF-16 that nothing marks as such
_FEWEST_BYTES: Final = 8  # of UTF-16 without a zero byte
_MOST_CONTROLS: Final = 0.02  # share of control characters in a text, such as those of an old terminal
_IN_WORDS: Final = frozenset("'’`·-\u00ad")
_AROUND_WORDS: Final = frozenset("“”„‚‘’«»‹›…•©®™§")
_DASHES: Final = frozenset("–—")
_USUAL: Final = frozenset("äöüßéèêëàâçîïôûùñáíóúåøæœãõìò")  # letters of the languages of cp1252
_WORDS: Final = frozenset("àèéòóåöüÀÈÉÒÓÅÖÜ")  # letters that are words, or stand alone
_BEFORE_NUMBERS: Final = frozenset("€£¥±")


def decode_text(content: bytes) -> str | None:
    """Return the text of some bytes; None where they are no text. Bytes of UTF-8 are always read as that."""
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return _plain(content.decode(encoding, errors="replace"))
    if b"\0" in content.rstrip(b"\0"):
        return _utf_16(content)
    content = content.rstrip(b"\0")
    try:
        return _plain(content.decode("utf-8"))
    except UnicodeDecodeError:
        pass
    candidates = [text for encoding in _ONE_BYTE if (text := _decoded(content, encoding)) is not None]
    if candidates:
        return max(candidates, key=_likeness_to_words)
    return _utf_16(content) if len(content) >= _FEWEST_BYTES else None


def _decoded(content: bytes, encoding: str) -> str | None:
    try:
        return _plain(content.decode(encoding))
    except UnicodeDecodeError:
        return None


def _utf_16(content: bytes) -> str | None:
    """Return the text of UTF-16 without a mark, in the byte order under which it is one."""
    even = content[: len(content) & ~1]
    texts = [text.rstrip("\0") for order in ("utf-16-le", "utf-16-be") if (text := _decoded(even, order)) is not None]
    likely = [text for text in texts if "\0" not in text and _share_of_one_script(text) >= _LEAST_SHARE]
    # Spaces and ASCII are rare in the wrong order.
    return max(likely, key=lambda text: sum(char.isascii() for char in text)) if likely else None


def _share_of_one_script(text: str) -> float:
    """Return the share of the commonest script among the letters of a text that are not ASCII; 1 for none of these."""
    if any(unicodedata.category(char) in {"Cn", "Co"} for char in text):
        return 0.0  # no letters at all
    scripts = Counter(_script(char) for char in text if not char.isascii() and char.isalpha())
    return scripts.most_common(1)[0][1] / scripts.total() if scripts else 1.0


def _plain(text: str) -> str | None:
    """Return the text, or None if it has more control characters than a text may have."""
    controls = sum(unicodedata.category(char) == "Cc" and char not in "\t\n\r\f\0" for char in text)
    return None if controls > _MOST_CONTROLS * len(text) else text


def _likeness_to_words(text: str) -> float:
    """Return how well the letters and marks that are not ASCII stand where letters and marks stand in words."""
    framed = f" {text} "
    score = 0.0
    for place in range(1, len(framed) - 1):
        before, char, after = framed[place - 1], framed[place], framed[place + 1]
        if char.isascii():
            continue
        score += _of_letter(before, char, after) if char.isalpha() else _of_mark(before, char, after)
    return score + _APOSTROPHE_SCORE * len(_APOSTROPHES.findall(text))


def _of_letter(before: str, char: str, after: str) -> float:
    if unicodedata.category(char) == "Lm" or char in "ªºƒ":
        return -1.0
    near = [other for other in (before, after) if other.isalpha()]
    if not near:
        return 0.6 if char in _WORDS else -0.5
    if any(_script(other) != _script(char) for other in near):
        return -2.0
    if char.isupper() and before.islower():
        return -2.0
    if char.islower() and after.isupper():
        return -2.0
    is_foreign = _script(char) != _script("a")
    strange = sum(not other.isascii() for other in near)
    usual = 0.2 if char.lower() in _USUAL else 0.0
    return 1.0 if is_foreign else 1.0 + usual - 0.5 * strange


def _of_mark(before: str, char: str, after: str) -> float:
    inside = before.isalpha() and after.isalpha()
    if char in _IN_WORDS and inside:
        return 0.5
    is_apart = before.isspace() and after.isspace()
    for marks, is_there, good, bad in (
        ("°", before.isdigit(), 0.7, -0.5),
        ("¡¿", after.isalpha() and not before.isalpha(), 0.5, -0.5),
        (_DASHES, not inside, 0.7, -1.0),
        (_AROUND_WORDS, not inside, 0.5, -1.0),
        (_BEFORE_NUMBERS, before.isdigit() or after.isdigit() or is_apart, 0.5, -1.0),
        ("\u00a0", not inside, 0.0, -1.0),
    ):
        if char in marks:
            return good if is_there else bad
    return -1.0


def _script(char: str) -> str:
    return unicodedata.name(char, "?").split(" ", 1)[0]
