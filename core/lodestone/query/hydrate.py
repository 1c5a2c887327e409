"""How do ids become hits? Facts from the catalog for one page of a ranking."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from lodestone.catalog.records import ImageRecord, ImageState
from lodestone.query.resolve import ResolvedQuery
from lodestone.query.stages import CatalogReader
from lodestone.retrieval.collapse import collapsed
from lodestone.retrieval.fusion import contributions
from lodestone.retrieval.searcher import Ranking
from lodestone_schemas.api import MAX_OFFSET, Hit

# A changed file is `pending` until it is embedded anew: its old vectors still find it.
_UNSHOWN: Final = frozenset({ImageState.GONE, ImageState.FAILED})
_PAGE: Final = 500
_NONE: Final[Mapping[str, int]] = {}


class Hydrator:
    """Reads pages of hits; remembers the names of corpora and roots. Thread-safe; blocking."""

    def __init__(self, catalog: CatalogReader) -> None:
        self._catalog = catalog
        self._names: dict[str, str] = {}  # corpus or root id -> name
        self._lock = threading.Lock()

    def shown(self, plan: ResolvedQuery, ranking: Ranking) -> tuple[Ranking, list[Hit]]:
        """The ranking as the plan wants it seen, without copies or with them, and its page."""
        folded: dict[str, int] = {}
        if plan.collapse and ranking.fused.ids:
            ranking, folded = collapsed(ranking, self._catalog.duplicate_groups(ranking.fused.ids))
        return ranking, self.page(plan, ranking, folded)

    def page(self, plan: ResolvedQuery, ranking: Ranking, folded: Mapping[str, int] = _NONE) -> list[Hit]:
        """The plan's page of the ranking. Pictures that have left the catalog meanwhile are left out; ranks stay."""
        start = plan.offset
        ids = ranking.fused.ids[start : start + plan.limit]
        if not ids:
            return []
        images = {key: one for key, one in self._catalog.images(ids).items() if one.state not in _UNSHOWN}
        captions = self._catalog.captions(list(images))
        names = self._names_of(images.values())
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
                    captions=[caption.text for caption in captions.get(image_id, ())],
                    thumbnail=f"/v1/images/{image_id}/thumbnail",
                    contributions=contributions(ranking.lists, image_id) if plan.explain else None,
                    copies=folded.get(image_id, 0),
                )
            )
        return hits

    def _names_of(self, images: Iterable[ImageRecord]) -> dict[str, str]:
        wanted = {one.corpus_id for one in images} | {one.root_id for one in images}
        with self._lock:
            if not wanted <= self._names.keys():
                self._names = self._read_names()
            return self._names

    def _read_names(self) -> dict[str, str]:
        names = {root.root_id: root.name for root in self._catalog.roots(None)}
        offset = 0
        while page := self._catalog.corpora(offset, _PAGE):
            names |= {corpus.corpus_id: corpus.name for corpus in page}
            offset += len(page)
        return names


def next_offset(plan: ResolvedQuery, ranking: Ranking) -> int | None:
    """Where the next page starts; None when this one is the last, or paging ends here."""
    after = plan.offset + plan.limit
    return after if after < len(ranking.fused) and after <= MAX_OFFSET else None
