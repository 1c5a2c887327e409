"""Which pictures of the collection look like the query? Those whose captions say it.

The cheapest guides there are: nothing is drawn, no image model runs. The query's text vector is compared with the captions of
the collection; the pictures behind the nearest ones become guides, with the vectors that they already have in each space.
Without captions there are no guides, and it costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lodestone.catalog.identity import caption_id
from lodestone.errors import DeadlineExceededError
from lodestone.generators.base import Generator, Guide, GuideRequest
from lodestone.query.clock import within
from lodestone.query.stages import CatalogReader
from lodestone.store.base import VectorQuery, VectorStore

CAPTIONS: Final = "captions"  # key of `GuideRequest.collections` for the collection of captions
_CAPTIONS_A_PICTURE: Final = 5  # as many may describe the same picture without costing a guide


@dataclass(frozen=True, slots=True)
class _Match:
    image_id: str
    caption: str  # id
    similarity: float


class Exemplar(Generator):
    """`exemplar`: guides are captioned pictures of the collection.

    Args:
        store: Holds captions and pictures.
        catalog: Knows the captions' words.
        text_encoder: The encoder whose vectors the captions have.
        least_similarity: Captions less like the query (cosine) make no guide; in [-1, 1).
    """

    name = "exemplar"
    version = "1"

    def __init__(
        self, store: VectorStore, catalog: CatalogReader, *, text_encoder: str = "minilm", least_similarity: float = 0.5
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._text_encoder = text_encoder
        self._least = least_similarity

    async def warm_up(self) -> None:
        """Nothing to load: the query's vector comes with the request."""

    async def generate(self, request: GuideRequest) -> list[Guide]:
        """See `Generator.generate`. A guide weighs where its caption's similarity lies between the least (0) and 1.

        Raises:
            DeadlineExceededError: the store did not answer in time.
        """
        captions, vector = request.collections.get(CAPTIONS), request.text_vectors.get(self._text_encoder)
        if captions is None or vector is None or request.n < 1:
            return []
        work = asyncio.to_thread(self._guides, captions, vector, request)
        if request.deadline is None:
            return await work
        try:
            return await within(work, request.deadline)
        except TimeoutError as error:
            raise DeadlineExceededError("no captions were found in time", hint="allow the query more time") from error

    def _guides(self, captions: str, vector: NDArray[np.float32], request: GuideRequest) -> list[Guide]:
        matches = self._matches(captions, vector, request)
        if not matches:
            return []
        vectors = self._vectors([match.image_id for match in matches], request.collections)
        words = self._words([match.image_id for match in matches])
        return [
            Guide(
                guide_id=f"{self.name}/{number}",
                engine=self.name,
                weight=min(1.0, (match.similarity - self._least) / (1 - self._least)),
                provenance={
                    "version": self.version,
                    "image_id": match.image_id,
                    "caption": words.get(match.caption, ""),
                    "similarity": round(match.similarity, 4),
                },
                vectors=vectors[match.image_id],
            )
            for number, match in enumerate(matches, request.first)
            if vectors.get(match.image_id)
        ]

    def _matches(self, captions: str, vector: NDArray[np.float32], request: GuideRequest) -> list[_Match]:
        """The `n` pictures with the nearest captions, best first, each by its best caption."""
        query = VectorQuery(
            vector, limit=(request.first + request.n) * _CAPTIONS_A_PICTURE, filter=request.filter, with_payload=True
        )
        (found,) = self._store.search(captions, [query])
        best: dict[str, _Match] = {}
        for key, score, payload in zip(found.ids, found.scores, found.payloads, strict=True):
            if score > self._least:
                best.setdefault(str(payload["image"]), _Match(str(payload["image"]), key, float(score)))
        return list(best.values())[request.first : request.first + request.n]

    def _vectors(self, image_ids: list[str], collections: Mapping[str, str]) -> dict[str, dict[str, NDArray[np.float32]]]:
        """Picture -> collection -> its vector there."""
        vectors: dict[str, dict[str, NDArray[np.float32]]] = {}
        for space, collection in collections.items():
            if space != CAPTIONS:
                points = self._store.retrieve(collection, image_ids)
                for row, image_id in enumerate(points.ids):
                    vectors.setdefault(image_id, {})[collection] = points.vectors[row]
        return vectors

    def _words(self, image_ids: list[str]) -> dict[str, str]:
        """Caption id -> its text."""
        return {
            caption_id(image_id, caption.source, caption.text): caption.text
            for image_id, captions in self._catalog.captions(image_ids).items()
            for caption in captions
        }
