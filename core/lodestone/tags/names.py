"""Names in what people write: words that say who or what exactly, which no model can see in a picture.

A word is a name if nothing knows it ("Ottilie"): neither the list of English words, nor the classifiers' class names, nor the
vocabulary of MiniLM. For known names ("Anna"), comparing whole captions by their meaning finds more than comparing words: on
452 queries with words like "Asian" or "Frisbee", putting the captions with these words first lost .045 of the mean average
precision (docs/gate-and-tags.md).

In a query, a name may be written in small letters. In a caption it needs its capital, because most unknown words in small
letters are ordinary ones that the lists lack. Scripts without capitals need none.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final

from lodestone.errors import ModelUnavailableError
from lodestone.tags.words import folded, split_words
from lodestone.text_encoders.english import english_counts, picture_words, words_of
from lodestone.text_encoders.labels import imagenet_labels
from lodestone.text_encoders.minilm import vocabulary_words

_SHORTEST: Final = 3  # letters of a Latin name


def names_in(text: str, *, small: bool = False) -> frozenset[str]:
    """Return the names in a text, case-folded; none where a list of words is not installed.

    Args:
        text: Words of a query, or a caption.
        small: Whether names may be written in small letters.
    """
    words = ((match.group(), folded(match.group())) for match in split_words(text))
    return frozenset(plain for written, plain in words if (small or not written.islower()) and _is_unknown(plain))


def _is_unknown(word: str) -> bool:
    known = _known_words()
    if not known or word.isdigit() or (word.isascii() and len(word) < _SHORTEST):
        return False
    return word not in known and not (word.endswith("s") and word[:-1] in known)


@lru_cache(maxsize=1)
def _known_words() -> AbstractSet[str]:
    try:
        return frozenset(english_counts()) | picture_words() | words_of(imagenet_labels()) | vocabulary_words()
    except ModelUnavailableError:
        return frozenset()
