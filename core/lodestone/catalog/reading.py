"""The part of the catalog that queries read, as a contract for engines, guides and tests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from lodestone.catalog.records import CaptionRecord, Corpus, ImageRecord, Root
from lodestone.catalog.work.going_on import IndexingNow


class CatalogReader(Protocol):
    """Reads facts of pictures, corpora and roots. Methods block and are thread-safe."""

    def corpus(self, name: str) -> Corpus:
        """Return the corpus of this name; `UnknownNameError` lists the known ones."""

    def corpora(self, offset: int = 0, limit: int = 100) -> list[Corpus]:
        """Return a page of all corpora."""

    def corpus_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Map the names of existing corpora to their ids; unknown names are left out."""

    def indexing_now(self, *, corpus_ids: Collection[str] | None = None) -> IndexingNow | None:
        """Return the newest index run that goes on, of these corpora or of any; None where none does."""

    def roots(self, corpus_id: str | None = None) -> list[Root]:
        """Return the roots of one corpus, or all roots."""

    def folders_called(self, spellings: Sequence[str], root_ids: Collection[str], *, most: int = 6) -> list[str]:
        """Return the folders inside some roots that a name means; see `NameRows`."""

    def disabled_roots(self) -> tuple[str, ...]:
        """Return the ids of the roots whose pictures must not be found now; every query reads them."""

    def images(self, image_ids: Iterable[str]) -> dict[str, ImageRecord]:
        """Map image ids to their records; unknown ids are left out."""

    def captions(self, image_ids: Iterable[str]) -> dict[str, list[CaptionRecord]]:
        """Map image ids to captions; pictures without captions may be left out."""

    def tagged_pictures(self, text: str, most: int) -> list[str]:
        """Return the ids of the pictures that have this tag, ascending, at most so many; see `TagRows`."""

    def lacks_facts(self, version: int) -> bool:
        """Return whether collections hold pictures with facts of an earlier version, or with none; see `HomeRows`."""

    def has_captions(self) -> bool:
        """Return whether any picture has a caption."""

    def has_compared_pictures(self) -> bool:
        """Return whether pictures that look alike were ever looked for, so that their groups are known."""

    def duplicate_groups(self, image_ids: Iterable[str]) -> dict[str, str]:
        """Map image ids to their group of copies; pictures without copies are left out."""
