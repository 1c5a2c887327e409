"""Sparse vectors of texts: words normalised, stemmed, hashed, and weighted by whether they carry meaning.

Two texts are compared word by word: the inner product of a query's vector with a picture's is the (weighted) share of the
query's words that the picture's tags hold, in [0, 1]. English endings are removed (Snowball), function words count little, and
scripts without spaces are cut into pairs of characters.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

import numpy as np

from lodestone.store.base import SparseVector

VERSION: Final = 1  # version of everything here that vectors depend on; part of the collection's name
FUNCTION_WORD: Final = 0.05  # weight of a function word; more than 0, so that the text "who is who" still has a vector
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
_FUNCTION_WORD_SET: Final = frozenset(_FUNCTION_WORDS.split())


def terms(text: str) -> dict[str, float]:
    """Return word stem -> weight in (0, 1], in the order of the text; empty when the text has no words."""
    return {_stem(word): FUNCTION_WORD if word in _FUNCTION_WORD_SET else 1.0 for word in _words(text)}


def query_vector(text: str) -> SparseVector | None:
    """Return the vector of a query, whose values sum to 1; None when the text has no words."""
    weights = terms(text)
    total = sum(weights.values())
    return _vector({word: weight / total for word, weight in weights.items()}) if weights else None


def picture_vector(tags: Iterable[tuple[str, float]]) -> SparseVector | None:
    """Return the vector of a picture with these tags.

    Args:
        tags: (text, confidence in (0, 1]) of each tag; a word of several tags gets the highest confidence.

    Returns:
        Values in (0, 1]; None when there are no words.
    """
    confidences: dict[str, float] = {}
    for text, confidence in tags:
        for word in terms(text):
            confidences[word] = max(confidences.get(word, 0.0), confidence)
    return _vector(confidences) if confidences else None


def _vector(values: Mapping[str, float]) -> SparseVector:
    hashed: dict[int, float] = {}
    for word, value in values.items():
        code = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "big")
        hashed[code] = max(hashed.get(code, 0.0), value)
    indices = np.array(sorted(hashed), np.uint32)
    return SparseVector(indices, np.array([hashed[int(code)] for code in indices], np.float32))


def _words(text: str) -> Iterator[str]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    for match in _WORDS.finditer(_UNSPACED.sub(_in_pairs, folded)):
        yield match.group().replace("’", "'").removesuffix("'s")


@lru_cache(maxsize=16_384)
def _stem(word: str) -> str:
    import snowballstemmer

    # A stemmer for each new word, because it holds state and queries come from several threads.
    stem: str = snowballstemmer.stemmer("english").stemWord(word)
    return stem


def _in_pairs(match: re.Match[str]) -> str:
    run = match.group()
    pairs = [run[start : start + 2] for start in range(len(run) - 1)] or [run]
    return f" {' '.join(pairs)} "
