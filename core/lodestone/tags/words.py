"""Words of texts that are compared word by word, and the function words among them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from lodestone.text_encoders.plain import plain_words, without_accents

_WORDS: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
# Han, kana, Thai, Lao, Myanmar and Khmer are written without spaces.
_UNSPACED: Final = re.compile(
    r"[\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+"
)
_FUNCTION_WORDS: Final = """
a about above across after against all along also am among an and another any are around as at away be because been before
behind
being below beneath beside between by can could did do does doing down during each either for from get gets getting had has have
having he her hers him his how i if in inside into is it its itself just like me my near no nor not of off on one onto or other
others our out outside over past per she so some such than that the their them then there these they this those through to
toward towards under until up upon us very was we were what when where which while who whom whose why will with within without
would you your
"""
FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORDS.split())


def split_words(text: str) -> Iterator[re.Match[str]]:
    """Yield the words of a text in its order, as they are written; scripts without spaces in pairs of characters.

    The matches are in the plain form of the text with spaces around such pairs (`re.Match.string`).
    """
    return _WORDS.finditer(_UNSPACED.sub(_in_pairs, plain_words(text)))


def folded(word: str) -> str:
    """Return a word case-folded, with a plain apostrophe, without `'s` and without the accents of Latin letters."""
    return without_accents(word.casefold().replace("’", "'").removesuffix("'s"))


def _in_pairs(match: re.Match[str]) -> str:
    run = match.group()
    pairs = [run[start : start + 2] for start in range(len(run) - 1)] or [run]
    return f" {' '.join(pairs)} "
