"""Noun phrases of captions: short texts that a bridge is trained on beside whole captions.

People search for "a frisbee" and "dirt bike" more often than for sentences, and a bridge that has seen sentences alone puts
such words anywhere. Phrases are found without a tagger: English captions are cut at function words and at words in -ing, and a
piece counts up to its last noun. The captions themselves tell which words are nouns: those that often end a piece after an
article or a number. Captions in other languages have no such pieces, and yield nothing.

Training of the words that a bridge knows one by one (spaces/learnt_words.py), from the noun phrases of captions. Each word is
a ridge regression on the bridge's own vectors of the training pictures: 1 for those whose captions have the word or its
plural, 0 for the others. The targets are many and the pictures the same, so it is one system of equations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.spaces.bridge_arrays import Array, unit
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.spaces.learnt_words import LearntWords
from lodestone.tags.words import FUNCTION_WORDS

TEMPLATES: Final = ("{}", "a photo of a {}")
LONGEST: Final = 3  # words of a phrase
_FEWEST: Final = 2  # times that a word must end a piece to be a noun
_SHARE: Final = 0.25  # of a word's uses that must end a piece
_WORD: Final = re.compile(r"[a-z]+(?:['-][a-z]+)*")
_BEFORE_NOUNS: Final = "a an the this that these those some several many few two three four five six his her their its another"
# Verbs of captions that are not in -ing: they stand between a noun and what it does.
_VERBS: Final = """
catch catches climb climbs dressed filled fly flies hold holds jump jumps lay lays lie lies line lined look looks play plays
pose poses pull pulls ride rides run runs show shows sit sits stand stands swim swims throw throws walk walks wear wears
"""
_OTHERS: Final = "along also and back front next only side very there it's one each both every while towards"
_OPENERS: Final = frozenset(_BEFORE_NOUNS.split())
_CUTS: Final = FUNCTION_WORDS | _OPENERS | frozenset(f"{_VERBS} {_OTHERS}".split())
_ALWAYS: Final = frozenset(("people", "men", "women", "children"))  # plurals that no ending shows


@dataclass(frozen=True, slots=True)
class Phrases:
    """Holds the phrases of captions.

    Attributes:
        texts: p phrases, each once, in alphabetical order.
        phrase: (r,) index of a phrase.
        caption: (r,) index of the caption that it stands in.
        singular: (p,) index of a phrase's singular; its own where it is one, or where the captions have none.
    """

    texts: list[str]
    phrase: NDArray[np.intp]
    caption: NDArray[np.intp]
    singular: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class PhrasePairs:
    """Holds phrases as vectors, and the pictures whose captions have them.

    Attributes:
        texts: (templates, p, d) vectors of each phrase in every template.
        phrase: (r,) index of a phrase.
        owner: (r,) row of a picture; each pair stands once, and there is one.
        singular: (p,) index of a phrase's singular; its own where it is one, or where the captions have none.
    """

    texts: Array
    phrase: NDArray[np.intp]
    owner: NDArray[np.intp]
    singular: NDArray[np.intp]

    def of(self, rows: NDArray[np.intp]) -> PhrasePairs | None:
        """Return the pairs of some pictures, whose rows are counted anew; None where these have none. `rows` are ascending."""
        kept = np.isin(self.owner, rows)
        if not kept.any():
            return None
        owner = np.searchsorted(rows, self.owner[kept]).astype(np.intp)
        return PhrasePairs(self.texts, self.phrase[kept], owner, self.singular)


def english_words(caption: str) -> list[str]:
    """Return the words of a caption in small letters; a word with a hyphen or an apostrophe is one."""
    return _WORD.findall(caption.lower())


def noun_phrases(captions: Sequence[str]) -> Phrases:
    """Return the last noun of each piece of the captions, and the phrases of two and three words that it ends."""
    nouns = _nouns(captions)
    found: list[tuple[str, int]] = []
    for number, caption in enumerate(captions):
        inside: dict[str, None] = {}
        for piece, _ in _pieces(caption):
            ends = [place for place, word in enumerate(piece, 1) if word in nouns]
            if ends:
                words = piece[: ends[-1]]
                inside |= {" ".join(words[-length:]): None for length in range(1, min(LONGEST, len(words)) + 1)}
        found += [(phrase, number) for phrase in inside]
    texts = sorted({phrase for phrase, _ in found})
    place = {phrase: index for index, phrase in enumerate(texts)}
    return Phrases(
        texts,
        np.array([place[phrase] for phrase, _ in found], np.intp),
        np.array([number for _, number in found], np.intp),
        np.array(
            [next((place[one] for one in _singulars(phrase) if one in place), number) for phrase, number in place.items()],
            np.intp,
        ),
    )


def in_templates(phrases: Phrases) -> list[str]:
    """Return every phrase in the first template, then every phrase in the next."""
    return [template.format(phrase) for template in TEMPLATES for phrase in phrases.texts]


def phrase_pairs(phrases: Phrases, vectors: Array, owner: NDArray[np.intp]) -> PhrasePairs | None:
    """Return the phrases of captions as vectors; None where they have none.

    Args:
        phrases: The phrases of m captions.
        vectors: (templates * p, d) vectors of `in_templates`.
        owner: (m,) row of the picture that each caption describes.
    """
    if not phrases.texts:
        return None
    texts = vectors.reshape(len(TEMPLATES), len(phrases.texts), -1)
    pairs = np.unique(np.stack([owner[phrases.caption], phrases.phrase], axis=1), axis=0)
    return PhrasePairs(texts, pairs[:, 1].copy(), pairs[:, 0].copy(), phrases.singular)


def _singulars(phrase: str) -> Iterator[str]:
    """Yield what the phrase may be the plural of, the longest first."""
    yield from (phrase.removesuffix(ending) for ending in ("s", "es") if phrase.endswith(ending))


def _nouns(captions: Sequence[str]) -> set[str]:
    """Return the words that are used as nouns."""
    uses: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    for caption in captions:
        for piece, opened in _pieces(caption):
            uses.update(piece)
            if opened and len(piece) <= LONGEST:
                ends[piece[-1]] += 1
    nouns = {word for word, count in ends.items() if count >= _FEWEST and count >= _SHARE * uses[word]}
    plurals = {word for word in uses if word.endswith("s") and (word[:-1] in nouns or word[:-2] in nouns)}
    return nouns | plurals | (_ALWAYS & uses.keys())


def _pieces(caption: str) -> Iterator[tuple[list[str], bool]]:
    """Yield the runs of content words, and whether an article or a number stands before each."""
    piece: list[str] = []
    opened = False
    for word in english_words(caption):
        if word not in _CUTS and not word.endswith("ing"):
            piece.append(word)
            continue
        if piece:
            yield piece, opened
            piece = []
        opened = word in _OPENERS
    if piece:
        yield piece, opened


FEWEST_PICTURES: Final = 10  # whose captions must have a word
_PENALTY: Final = 1.0  # of the ridge, where pictures' vectors have length 1; both were chosen on the validation part


def learn_words(weights: BridgeWeights, components: Array, phrases: PhrasePairs) -> LearntWords | None:
    """Return the words that a bridge learns from its training pictures; None where no word is in enough captions.

    Args:
        weights: The bridge; its own words do not count.
        components: (n, k) principal components of the pictures.
        phrases: Phrases of their captions: bare in the first template, as photos of them in the second.
    """
    has = np.zeros((len(components), phrases.texts.shape[1]), bool)
    has[phrases.owner, phrases.singular[phrases.phrase]] = True
    kept = np.flatnonzero(has.sum(axis=0) >= FEWEST_PICTURES)
    if len(kept) == 0:
        return None
    bare, templated = phrases.texts[0, kept], phrases.texts[1, kept]
    pictures = _centred(weights.from_components(components))
    labels = has[:, kept].astype(np.float32)
    vectors = _ridge(pictures, labels - labels.mean(axis=0))
    # A text that is the word shall count half, the word half: both have the same spread of scores over the pictures.
    usual = np.median((pictures @ replace(weights, words=None).texts(bare).T).std(axis=0))
    spread = np.maximum((pictures @ vectors).std(axis=0), np.finfo(np.float32).tiny)
    return LearntWords(
        texts=unit(bare).T.copy(),
        vectors=(vectors * (usual / spread)).astype(np.float32),
        shift=(templated - bare).mean(axis=0),
    )


def _centred(rows: Array) -> Array:
    centred: Array = rows - rows.mean(axis=0)
    return centred


def _ridge(pictures: Array, targets: Array) -> Array:
    """Return the (dim, targets) weights that predict (n, targets) from (n, dim), both centred."""
    inner = (pictures.T @ pictures).astype(np.float64) + _PENALTY * np.eye(pictures.shape[1])
    solved: Array = np.linalg.solve(inner, pictures.T @ targets).astype(np.float32)
    return solved
