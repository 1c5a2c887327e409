"""Pages of hits: facts from the catalog for the pictures of one page of a ranking."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from lodestone.catalog.pictures.taken import taken_local
from lodestone.catalog.reading import CatalogReader
from lodestone.catalog.records import ImageRecord, ImageState, Root
from lodestone.files.beneath import Boundaries
from lodestone.query.asking.resolved import ResolvedQuery
from lodestone.query.composing.ranking import parts_of_hit
from lodestone.retrieval.collapse import collapsed, with_equal_files
from lodestone.retrieval.fusion import contributions
from lodestone.retrieval.searcher import Ranking
from lodestone.sources.originals import missing_files
from lodestone.tags.filed import FiledBy, filed_under, telling_words
from lodestone_schemas.api import MAX_OFFSET, Contribution, Hit

# A changed file is `pending` until it is embedded anew: its old vectors still find it.
_UNSHOWN: Final = frozenset({ImageState.GONE, ImageState.FAILED})
_PAGE: Final = 500
NAMES_HOLD_S: Final = 1.0
"""Seconds for which names of corpora are remembered: a corpus may be renamed."""

_NONE: Final[Mapping[str, int]] = {}


class Hydrator:
    """Reads pages of hits and remembers the names of corpora and roots for a second. Thread-safe; blocking.

    Args:
        catalog: Knows the pictures.
        boundaries: What may be opened of the roots.
    """

    def __init__(self, catalog: CatalogReader, boundaries: Boundaries | None = None) -> None:
        self._catalog = catalog
        self._boundaries = boundaries or Boundaries()
        self._names: dict[str, str] = {}  # corpus or root id -> name
        self._names_until = 0.0  # on the clock of `time.monotonic()`
        self._roots: dict[str, Root] = {}  # by id
        self._lock = threading.Lock()

    def shown(self, resolved: ResolvedQuery, ranking: Ranking) -> tuple[Ranking, list[Hit]]:
        """Return the ranking as the query shows it, with or without copies, and its page."""
        folded: dict[str, int] = {}
        if resolved.collapse and ranking.fused.ids:
            ids = ranking.fused.ids
            hashes = {image_id: image.hash for image_id, image in self._catalog.images(ids).items()}
            ranking, folded = collapsed(ranking, with_equal_files(self._catalog.duplicate_groups(ids), hashes))
        return ranking, self.page(resolved, ranking, folded)

    def page(self, resolved: ResolvedQuery, ranking: Ranking, folded: Mapping[str, int] = _NONE) -> list[Hit]:
        """Return the query's page of a ranking. Pictures that have left the catalog meanwhile are left out; ranks stay.

        Args:
            resolved: The query.
            ranking: The ranking as it is shown.
            folded: Image id -> number of copies that it represents.
        """
        start = resolved.offset
        ids = ranking.fused.ids[start : start + resolved.limit]
        if not ids:
            return []
        images = {key: image for key, image in self._catalog.images(ids).items() if image.state not in _UNSHOWN}
        captions = self._catalog.captions(list(images))
        names = self._names_of(images.values())
        missing = self._missing(images.values())
        telling = telling_words(resolved.text) if resolved.tags is not None else frozenset()
        hits = []
        for place, image_id in enumerate(ids, start):
            image = images.get(image_id)
            if image is None or image.corpus_id not in names or image.root_id not in names:
                continue
            hits.append(
                Hit(
                    rank=place + 1,
                    image_id=image_id,
                    score=float(ranking.fused.scores[place]),
                    corpus=names[image.corpus_id],
                    root=names[image.root_id],
                    uri=image.uri,
                    width=image.width,
                    height=image.height,
                    taken_at=None if image.taken_at is None else datetime.fromtimestamp(image.taken_at, UTC),
                    taken_local=taken_local(image.taken_at, image.utc_offset_minutes, image.taken_precision),
                    captions=[caption.text for caption in captions.get(image_id, ())],
                    thumbnail=f"/v1/images/{image_id}/thumbnail",
                    contributions=_contributions(ranking, image_id) if resolved.explain else None,
                    found_by=_found_by(telling, image, names[image.root_id]),
                    copies=folded.get(image_id, 0),
                    missing=image_id in missing,
                )
            )
        return hits

    def _names_of(self, images: Iterable[ImageRecord]) -> dict[str, str]:
        wanted = {image.corpus_id for image in images} | {image.root_id for image in images}
        with self._lock:
            if not wanted <= self._names.keys() or time.monotonic() >= self._names_until:
                until = time.monotonic() + NAMES_HOLD_S
                self._names, self._names_until = self._read_names(), until
            return self._names

    def _missing(self, images: Collection[ImageRecord]) -> set[str]:
        """Return the ids of the pictures whose files are gone. A directory may have moved since the roots were read."""
        with self._lock:
            roots = self._roots
        missing = missing_files(images, roots, self._boundaries)
        if not missing:
            return missing
        roots = {root.root_id: root for root in self._catalog.roots(None)}
        with self._lock:
            self._roots = roots
        return missing_files([image for image in images if image.image_id in missing], roots, self._boundaries)

    def _read_names(self) -> dict[str, str]:
        self._roots = {root.root_id: root for root in self._catalog.roots(None)}
        names = {root.root_id: root.name for root in self._roots.values()}
        offset = 0
        while True:
            page = self._catalog.corpora(offset, _PAGE)
            names |= {corpus.corpus_id: corpus.name for corpus in page}
            offset += len(page)
            if len(page) < _PAGE:
                return names


def _found_by(telling: frozenset[str], image: ImageRecord, root: str) -> list[FiledBy]:
    """Return where telling words of the query stand; see `tags.filed`."""
    return [by for by, words in filed_under(image, root).items() if words & telling] if telling else []


def _contributions(ranking: Ranking, image_id: str) -> list[Contribution]:
    return parts_of_hit(ranking, image_id) if ranking.similarities else contributions(ranking.lists, image_id)


def next_offset(resolved: ResolvedQuery, ranking: Ranking) -> int | None:
    """Return where the next page starts; None when this page is the last, or paging ends here."""
    after = resolved.offset + resolved.limit
    return after if after < len(ranking.fused) and after <= MAX_OFFSET else None
