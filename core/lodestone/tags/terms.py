"""Sparse vectors of texts: words normalised, stemmed, hashed, and weighted by whether they carry meaning.

Two texts are compared word by word: the inner product of a query's vector with a picture's is the (weighted) share of the
query's words that the picture's tags hold, in [0, 1]. English endings are removed (Snowball), function words count little, and
scripts without spaces are cut into pairs of characters.

The vector of a picture also says, in dimensions of their own, which words people wrote to it: the words of the tags that they
gave, the names in its captions, and the other words of its captions; and under which words the picture is filed (filed.py).
`LiteralQuery` and `filed.FiledQuery` find the pictures by whose words a query should be answered whatever the models see.

Names in what people write: words that say who or what exactly, which no model can see in a picture. A word is a name if
nothing knows it ("Ottilie"): neither the list of English words, nor the classifiers' class names, nor the vocabulary of
MiniLM. For known names ("Anna"), comparing whole captions by their meaning finds more than comparing words: on 452 queries
with words like "Asian" or "Frisbee", putting the captions with these words first lost .045 of the mean average precision
(docs/gate-and-tags.md).

In a query, a name may be written in small letters. In a caption it needs its capital, because most unknown words in small
letters are ordinary ones that the lists lack. Scripts without capitals need none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

import numpy as np

from lodestone.errors import ModelUnavailableError
from lodestone.store.base import SparseVector
from lodestone.tags.words import FUNCTION_WORDS, folded, split_words
from lodestone.text_encoders.english import english_counts, picture_words, words_of
from lodestone.text_encoders.labels import imagenet_labels
from lodestone.text_encoders.minilm import vocabulary_words

VERSION: Final = 6  # version of everything here that vectors depend on; part of the collection's name
FUNCTION_WORD: Final = 0.05  # weight of a function word; more than 0, so that the text "who is who" still has a vector
# Prefixes of terms that say what people wrote; no word contains the character 0.
_SAID: Final = "\0said:"  # words of their tags, and names in captions
_WHOLE: Final = "\0whole:"  # the content words of one tag, together
_FILED: Final = "\0filed:"  # words under which it is filed, and those that people said
_BESIDE: Final = "\0beside:"  # other words of captions: they count for queries with a name, and for queries of one word
_MOST_LITERAL: Final = 200  # content words of a query; sums of its values stay below 2**24, where float32 is exact


def terms(text: str) -> dict[str, float]:
    """Return word stem -> weight in (0, 1], in the order of the text; empty when the text has no words."""
    words = (folded(match.group()) for match in split_words(text))
    return {stem(word): FUNCTION_WORD if word in FUNCTION_WORDS else 1.0 for word in words}


def query_vector(text: str) -> SparseVector | None:
    """Return the vector of a query, whose values sum to 1; None when the text has no words."""
    weights = terms(text)
    total = sum(weights.values())
    return sparse_vector({word: weight / total for word, weight in weights.items()}) if weights else None


Given = Literal["words", "query", "nobody"]
"""Who gave a tag: people who describe the picture by words; people who called it right for this query; or nobody."""


@dataclass(frozen=True, slots=True)
class PictureTag:
    """A tag as it enters the vector of its picture.

    Attributes:
        text: The tag.
        confidence: How sure it is, in (0, 1].
        given: Who gave it.
    """

    text: str
    confidence: float = 1.0
    given: Given = "nobody"


def picture_vector(tags: Iterable[PictureTag], captions: Iterable[str] = (), filed: Iterable[str] = ()) -> SparseVector | None:
    """Return the vector of a picture with these tags and captions.

    A word of several tags gets the highest confidence. Of captions, names are kept, and other content words beside them.

    Args:
        tags: Its tags.
        captions: Its captions.
        filed: Stems of the words under which it is filed.

    Returns:
        Values in (0, 1]; None when there are no words.
    """
    values: dict[str, float] = {filed_term(word): 1.0 for word in filed}
    for tag in tags:
        weights = terms(tag.text)
        for word in weights:
            values[word] = max(values.get(word, 0.0), tag.confidence)
        if tag.given == "words":
            values |= {prefix + word: 1.0 for word in weights for prefix in (_SAID, _FILED)}
        if tag.given in ("words", "query") and weights:
            values[_whole(weights)] = 1.0
    for caption in captions:
        names = {stem(word) for word in names_in(caption)}
        values |= {prefix + word: 1.0 for word in names for prefix in (_SAID, _FILED)}
        values |= {
            _BESIDE + word: 1.0 for word, weight in terms(caption).items() if weight > FUNCTION_WORD and word not in names
        }
    return sparse_vector(values) if values else None


Held = Literal["nothing", "caption", "names", "everything"]
"""What people's words say of a picture and a query: nothing; that a caption holds the query's one word, which is no name there;
that it shows everything that the query names; or all of it."""


@dataclass(frozen=True, slots=True)
class LiteralQuery:
    """Query for the pictures to which people wrote its words.

    Attributes:
        vector: Values are whole numbers, so that sums of them are exact.
        others: Number of content words that are no names.
        names: Number of names.
        is_one_word: Whether one content word is all of the query, so that captions with it are found as well.
    """

    vector: SparseVector
    others: int
    names: int
    is_one_word: bool = False

    def held(self, score: float) -> Held:
        """Return what a picture of this inner product with `vector` holds of the query's words."""
        total = round(score)
        if total >= self.of_whole:
            return "everything"
        if self.is_one_word and total == 1:
            return "caption"
        names, rest = divmod(total, self.of_name)
        said, beside = divmod(rest, self.of_word)
        if names < self.names:
            return "nothing"
        if said == self.others or (self.names and beside == self.others):
            return "everything"
        return "names" if self.names else "nothing"

    @property
    def of_word(self) -> int:
        """Return the value of a word that is no name; one beside a name in a caption has the value 1."""
        return max(self.others, int(self.is_one_word)) + 1

    @property
    def of_name(self) -> int:
        """Return the value of a name, above that of all other words together."""
        return (self.others + 1) * self.of_word

    @property
    def of_whole(self) -> int:
        """Return the value of all words in one tag, above that of all of them apart."""
        return (self.names + 1) * self.of_name


def literal_query(text: str) -> LiteralQuery | None:
    """Return the query for pictures to which people wrote the words of a text; None when it has no words, or very many.

    Function words are left out, unless there are no others.
    """
    weights = terms(text)
    content = _content(weights)
    if not 0 < len(content) <= _MOST_LITERAL:
        return None
    found = {stem(word) for word in names_in(text, small=True)}
    names = [word for word in content if word in found]
    others = [word for word in content if word not in found]
    is_one_word = len(content) == 1 and weights[content[0]] > FUNCTION_WORD
    query = LiteralQuery(sparse_vector({}), others=len(others), names=len(names), is_one_word=is_one_word)
    values = {_SAID + word: float(query.of_word) for word in others}
    values |= {_SAID + word: float(query.of_name) for word in names}
    values |= {_BESIDE + word: 1.0 for word in (content if is_one_word else others) if is_one_word or names}
    values[_whole(weights)] = float(query.of_whole)
    vector = sparse_vector(values)
    return replace(query, vector=vector) if len(vector.indices) == len(values) else None


def filed_term(word: str) -> str:
    """Return the term of a word, a stem, under which a picture is filed."""
    return _FILED + word


def content_words(text: str) -> frozenset[str]:
    """Return the stems of a text's words without function words, unless there are no others."""
    return frozenset(_content(terms(text)))


def _content(weights: Mapping[str, float]) -> list[str]:
    return [word for word, weight in weights.items() if weight > FUNCTION_WORD] or list(weights)


def _whole(weights: Mapping[str, float]) -> str:
    return _WHOLE + " ".join(sorted(_content(weights)))


def sparse_vector(values: Mapping[str, float]) -> SparseVector:
    """Return the vector with these values of terms; of two terms with the same code, the higher value stays."""
    hashed: dict[int, float] = {}
    for word, value in values.items():
        code = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "big")
        hashed[code] = max(hashed.get(code, 0.0), value)
    indices = np.array(sorted(hashed), np.uint32)
    return SparseVector(indices, np.array([hashed[int(code)] for code in indices], np.float32))


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """Return a word, case-folded, without its English ending."""
    if word[-1:].isdigit():
        return word  # numbers and codes have no endings
    import snowballstemmer

    # A stemmer for each new word, because it holds state and queries come from several threads.
    found: str = snowballstemmer.stemmer("english").stemWord(word)
    return found


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
