"""Present and absent queries of every length from one generator, so that both are of one style.

The queries are what captions of photos say: their nouns, their phrases of two words, pieces of three to five words, and the
whole captions. Of photos with several captions, a noun counts that two of them have. Asked of a collection, those of its own
photos are present. Those of other photos are absent if a noun of them is in no caption of the collection, is not so common
that captions leave it out (`COMMON`), and no caption of the collection is like them (`UNLIKE`). A photo can show what no
caption says, so some of the absent ones are there all the same.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import numpy as np

from lodestone.tags.terms import FUNCTION_WORD, terms
from lodestone.tags.words import FUNCTION_WORDS
from lodestone.text_encoders.base import TextEncoder
from lodestone.training.phrases import english_words, noun_phrases
from research.fits.presence_data import Asked, Gallery

LENGTHS: Final = ("one word", "two words", "three to five words", "caption")
PRESENT: Final = "present, "
ABSENT: Final = "absent, "
COMMON: Final = 0.05  # share of the photos whose captions have a word above which its absence from captions says little
UNLIKE: Final = 0.55  # highest cosine of an absent query to a caption of the collection
_TRIED: Final = 6  # absent queries that are looked at for each that is wanted


class Lengths:
    """Texts of a gallery's captions by length, and the collections that they can be asked of.

    Args:
        gallery: The photos with their captions.
        encoder: Encodes words, warm.
    """

    def __init__(self, gallery: Gallery, encoder: TextEncoder) -> None:
        self._photos, self._encoder = gallery.photos, encoder
        self._vectors: dict[str, np.ndarray] = {}
        self._words = [_content(text) for text in gallery.captions]
        shown: defaultdict[str, set[int]] = defaultdict(set)
        for words, owner in zip(self._words, self._photos.owner, strict=True):
            for word in words:
                shown[word].add(int(owner))
        self._rare = {word for word, photos in shown.items() if len(photos) <= COMMON * gallery.size}
        phrases = noun_phrases(gallery.captions)
        nouns = {text for text in phrases.texts if " " not in text}
        self._nouns = set().union(*map(_content, nouns))
        agreed = self._agreed()
        self._texts: dict[str, list[tuple[str, int]]] = {length: [] for length in LENGTHS}
        for phrase, caption in zip(phrases.phrase, phrases.caption, strict=True):
            text = phrases.texts[phrase]
            if _content(text) & self._nouns <= agreed[caption]:
                self._texts[LENGTHS[min(text.count(" "), 2)]].append((text, int(caption)))
        for caption, text in enumerate(gallery.captions):
            pieces = [piece for piece in _pieces(text, nouns) if _content(piece) & self._nouns <= agreed[caption]]
            self._texts["three to five words"] += [(piece, caption) for piece in pieces]
            self._texts["caption"].append((text, caption))

    def ask(self, rows: np.ndarray, rng: np.random.Generator, each: int) -> Asked:
        """Return up to `each` present and as many absent queries of every length, for the collection of these photos."""
        asked, inside = Asked(), np.isin(self._photos.owner, rows)
        said = set().union(*(self._words[caption] for caption in np.flatnonzero(inside)))
        captions = self._photos.texts[inside]
        for length, texts in self._texts.items():
            here = [one for one in texts if inside[one[1]]]
            self._add(asked, [here[number] for number in rng.permutation(len(here))[:each]], PRESENT + length)
            others = [one for one in texts if not inside[one[1]]]
            drawn = [others[number] for number in rng.permutation(len(others))[: _TRIED * each]]
            gone = [one for one in drawn if (_content(one[0]) & self._nouns & self._rare) - said][: 2 * each]
            if gone:
                unlike = (self._encoded([text for text, _ in gone]) @ captions.T).max(1) < UNLIKE
                self._add(asked, [one for one, kept in zip(gone, unlike, strict=True) if kept][:each], ABSENT + length)
        return asked

    def _agreed(self) -> list[set[str]]:
        """Return for each caption the words that another caption of its photo has too; all of them where it is the only one."""
        of_photo: defaultdict[int, list[int]] = defaultdict(list)
        for caption, owner in enumerate(self._photos.owner):
            of_photo[int(owner)].append(caption)
        agreed = []
        for caption, owner in enumerate(self._photos.owner):
            others = [self._words[other] for other in of_photo[int(owner)] if other != caption]
            agreed.append(self._words[caption] & set().union(*others) if others else self._words[caption])
        return agreed

    def _add(self, asked: Asked, texts: list[tuple[str, int]], kind: str) -> None:
        if texts:
            captions = np.array([caption for _, caption in texts])
            asked.add(self._encoded([text for text, _ in texts]), kind, present=kind.startswith(PRESENT), captions=captions)

    def _encoded(self, texts: list[str]) -> np.ndarray:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors |= dict(zip(new, self._encoder.encode(new), strict=True))
        return np.stack([self._vectors[text] for text in texts])


def _content(text: str) -> set[str]:
    return {word for word, weight in terms(text).items() if weight > FUNCTION_WORD}


def _pieces(caption: str, nouns: set[str]) -> list[str]:
    """Return the runs of three to five words that begin with a content word, end with a noun, and have another word between."""
    words = english_words(caption)
    found = []
    for start in range(len(words)):
        for end in range(start + 3, min(start + 5, len(words)) + 1):
            piece = words[start:end]
            joined = any(word in FUNCTION_WORDS or word.endswith("ing") for word in piece[1:-1])
            if piece[0] not in FUNCTION_WORDS and piece[-1] in nouns and joined:
                found.append(" ".join(piece))
    return found
