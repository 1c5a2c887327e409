"""Guide engine `exemplar`: pictures of the collection whose captions or tags match the query become guides.

These are the cheapest guides: nothing is drawn and no image model runs. The query's text vector is compared with the captions
of the collection, and its words with the tags learned in use. The pictures of the nearest ones become guides, with the vectors
that they already have in each space. Without captions and tags there are no guides, and it costs nothing.

Guides raise similar pictures: that helps a picture only if it looks like the described one, so exemplars have small weights
and only near-identical captions count at all. What a caption says about its own picture is used elsewhere
(query/guides/captions.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.catalog.identity import caption_id
from lodestone.catalog.reading import CatalogReader
from lodestone.clock import within
from lodestone.errors import DeadlineExceededError
from lodestone.generators.base import Generator, Guide, GuideRequest, TagSource
from lodestone.spaces.names import CAPTIONS, TAGS
from lodestone.store.algebra import by_owner
from lodestone.store.base import Neighbours, VectorQuery, VectorStore

LEAST_SIMILARITY: Final = 0.6  # research/studies/exemplars.py
LEAST_TAG: Final = 0.6**3  # score of tags that hold three of five words: fewer may leave out what the query is about
TAG_WEIGHT: Final = 0.5  # weight of a tag that matches the whole query: as that of a caption with similarity .8
_CAPTIONS_A_PICTURE: Final = 5  # captions fetched per picture at first
_MOST_REMEMBERED: Final = 100_000  # captions


@dataclass(frozen=True, slots=True)
class _Match:
    image_id: str
    weight: float
    caption: str = ""  # id of the caption
    similarity: float = 0.0
    tag_score: float | None = None

    def provenance(self, words: Mapping[str, str]) -> dict[str, Any]:
        """Return the entry for the guide's provenance."""
        if self.tag_score is not None:
            return {"tag_score": round(self.tag_score, 4)}
        return {"caption": words.get(self.caption, ""), "similarity": round(self.similarity, 4)}


class Exemplar(Generator):
    """Generator `exemplar`: its guides are captioned and tagged pictures of the collection.

    Args:
        store: Vector store with captions and pictures.
        catalog: Knows the captions' words.
        text_encoder: The encoder whose vectors the captions have.
        least_similarity: Captions less similar to the query (cosine) make no guide; in [-1, 1).
        tags: Searches the tags; None to use captions alone.
    """

    name = "exemplar"
    version = "2"

    def __init__(
        self,
        store: VectorStore,
        catalog: CatalogReader,
        *,
        text_encoder: str = "minilm",
        least_similarity: float = LEAST_SIMILARITY,
        tags: TagSource | None = None,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._text_encoder = text_encoder
        self._least = least_similarity
        self._tags = tags
        # Caption id -> its picture, and its text. An id is made of both, so neither changes. Others go on reading former ones.
        self._owners: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    async def warm_up(self) -> None:
        """Do nothing: the query's vector comes with the request."""

    async def generate(self, request: GuideRequest) -> list[Guide]:
        """Return guides by falling weight.

        A caption's weight is where its similarity lies between the least (0) and 1; a tag's weight is its score times
        `TAG_WEIGHT`. A picture with both makes one guide of the larger weight.

        Raises:
            DeadlineExceededError: the store did not answer in time.
        """
        if request.n < 1:
            return []
        work = asyncio.to_thread(self._guides, request)
        if request.deadline is None:
            return await work
        try:
            return await within(work, request.deadline)
        except TimeoutError as error:
            raise DeadlineExceededError("no captions were found in time", hint="allow the query more time") from error

    def _guides(self, request: GuideRequest) -> list[Guide]:
        wanted = request.first + request.n
        matches = _merged(self._captioned(request, wanted), self._tagged(request, wanted))[request.first : wanted]
        if not matches:
            return []
        images = [match.image_id for match in matches]
        vectors = self._vectors(images, request.collections)
        words = self._words([match for match in matches if match.caption])
        return [
            Guide(
                guide_id=f"{self.name}/{number}",
                engine=self.name,
                weight=match.weight,
                provenance={"version": self.version, "image_id": match.image_id, **match.provenance(words)},
                vectors=vectors[match.image_id],
            )
            for number, match in enumerate(matches, request.first)
            if vectors.get(match.image_id)
        ]

    def _captioned(self, request: GuideRequest, wanted: int) -> list[_Match]:
        """Return the `wanted` pictures with the nearest captions, best first, each with its best caption."""
        collection, vector = request.collections.get(CAPTIONS), request.text_vectors.get(self._text_encoder)
        if collection is None or vector is None:
            return []
        limit = wanted * _CAPTIONS_A_PICTURE
        payloads = not self._store.instant(collection)
        while True:
            query = VectorQuery(vector, limit=limit, filter=by_owner(request.filter), with_payload=payloads)
            (hits,) = self._store.search(collection, [query])
            near = [(key, score) for key, score in zip(hits.ids, hits.scores.tolist(), strict=True) if score > self._least]
            owners = self._owners_of(collection, [key for key, _ in near], hits)
            best: dict[str, _Match] = {}
            for key, score in near:
                image_id, weight = owners.get(key), min(1.0, (score - self._least) / (1 - self._least))
                if image_id is not None and weight > 0:
                    best.setdefault(image_id, _Match(image_id, weight, caption=key, similarity=score))
            # A picture with many captions must not displace another guide, or several rounds would differ from one.
            if len(best) >= wanted or len(hits) < limit or hits.scores[-1] <= self._least:
                return list(best.values())[:wanted]
            limit *= 2

    def _owners_of(self, collection: str, captions: list[str], hits: Neighbours) -> dict[str, str]:
        """Return caption id -> picture of captions that were found; without those that were removed meanwhile."""
        if hits.payloads:
            return {key: str(payload["image"]) for key, payload in zip(hits.ids, hits.payloads, strict=True)}
        known = self._owners
        new = [key for key in captions if key not in known]
        if new:
            points = self._store.retrieve(collection, new)
            if len(known) + len(new) > _MOST_REMEMBERED:
                known = self._owners = {key: known[key] for key in captions if key in known}
            known.update((key, str(payload["image"])) for key, payload in zip(points.ids, points.payloads, strict=True))
        return {key: known[key] for key in captions if key in known}

    def _tagged(self, request: GuideRequest, wanted: int) -> list[_Match]:
        """Return the `wanted` pictures with the nearest tags, best first."""
        collection = request.collections.get(TAGS)
        if collection is None or self._tags is None:
            return []
        hits = self._tags.search(request.query, collection, filter_=request.filter, limit=wanted).degrees
        return [
            _Match(image_id, TAG_WEIGHT * min(score, 1.0), tag_score=score)
            for image_id, score in zip(hits.ids, hits.scores.tolist(), strict=True)
            if score >= LEAST_TAG
        ][:wanted]

    def _vectors(self, image_ids: list[str], collections: Mapping[str, str]) -> dict[str, dict[str, NDArray[np.float32]]]:
        """Return picture -> collection -> the picture's vector there."""
        vectors: dict[str, dict[str, NDArray[np.float32]]] = {}
        for space, collection in collections.items():
            if space not in (CAPTIONS, TAGS):
                points = self._store.retrieve(collection, image_ids, with_payload=False)
                for row, image_id in enumerate(points.ids):
                    vectors.setdefault(image_id, {})[collection] = points.vectors[row]
        return vectors

    def _words(self, matches: list[_Match]) -> dict[str, str]:
        """Return caption id -> the caption's text."""
        texts = self._texts
        new = [match.image_id for match in matches if match.caption not in texts]
        if new and len(texts) > _MOST_REMEMBERED:
            texts = self._texts = {}
            new = [match.image_id for match in matches]
        if new:
            texts.update(
                (caption_id(image_id, caption.source, caption.text), caption.text)
                for image_id, captions in self._catalog.captions(new).items()
                for caption in captions
            )
        return {match.caption: texts.get(match.caption, "") for match in matches}


def _merged(captioned: list[_Match], tagged: list[_Match]) -> list[_Match]:
    """Return one match per picture, the heavier one, by falling weight; equal ones captions first, then in the order given.

    The first n depend on the first n of each list alone, so that several rounds give the same guides as one.
    """
    merged: dict[str, _Match] = {}
    for match in sorted([*captioned, *tagged], key=lambda match_: -match_.weight):  # stable
        merged.setdefault(match.image_id, match)
    return list(merged.values())
