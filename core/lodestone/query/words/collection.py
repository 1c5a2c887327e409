"""Words of the collection itself: those of its captions and of the tags that people gave, per visible set of corpora.

A caller who sees some corpora only must not learn a word of the others from a correction, so each such set has words of its
own. Tags that queries left are not read: a misspelt query would make its own misspelling a known word.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import islice
from typing import Final, Protocol

from lodestone.access.visibility import Visibility
from lodestone.catalog.records import TagRecord
from lodestone.text_encoders.english import words_of
from lodestone.text_encoders.plain import plain_words, without_accents

MOST_PICTURES: Final = 20_000  # captioned pictures that are read
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

    def list_tags(self, *, corpus_id: str | None = None, source: str | None = None, limit: int = 100) -> list[TagRecord]:
        """Return tags, newest first, of one corpus or of all, from one source or from all."""


class CollectionWords:
    """Reads the words of a collection when a query first has a word that nothing else knows; thread-safe.

    Args:
        catalog: Holds captions and tags.
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
