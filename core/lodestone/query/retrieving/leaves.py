"""Retrievers of the leaves of queries: one table from leaf type to what turns such a leaf into vectors.

A retriever gives one vector a collection, and the store searches it with the query's filter, so that no leaf can find what the
caller may not see. A new type of leaf needs its class in tree.py and its row here (docs/recipes/add-a-query-node.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import InvalidRequestError, NotFoundError, UnknownNameError
from lodestone.query.asking.running import RunningQuery
from lodestone.query.asking.tree import Image, Leaf, Picture, Text, Vector
from lodestone.query.contracts import Encoder
from lodestone.query_log.trace import Kind
from lodestone.retrieval.fusion import PICTURE_GUIDE, TEXT_GUIDE
from lodestone.retrieval.rescoring import ListSearch
from lodestone.store.base import VectorStore
from lodestone.text_encoders.plain import plain_words

Row = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EncodedLeaf:
    """A leaf as it can be searched.

    Attributes:
        guide: Guide of its lists, e.g. `TEXT_GUIDE`.
        vectors: Collection -> (dim,) float32, L2-normalised.
        text_vectors: Text encoder -> (d,) float32, L2-normalised, of a leaf with words.
    """

    guide: str
    vectors: Mapping[str, Row] = field(default_factory=dict)
    text_vectors: Mapping[str, Row] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EncodedQuery:
    """All leaves of a query as they can be searched.

    Attributes:
        leaves: In the order of `ResolvedQuery.leaves`.
        spaces: Space -> collection that the query is compared with: every space for words, as some spaces weigh by them without
            taking text, else those for which a leaf has a vector.
        avoided: Numbers of the leaves that are to be avoided.
    """

    leaves: tuple[EncodedLeaf, ...]
    spaces: Mapping[str, str]
    avoided: frozenset[int] = frozenset()

    @property
    def text_vectors(self) -> Mapping[str, Row]:
        """Text encoder -> (d,) float32 vector of the first words that are looked for; empty without words."""
        wanted = (leaf for number, leaf in enumerate(self.leaves) if number not in self.avoided)
        return next((leaf.text_vectors for leaf in wanted if leaf.text_vectors), {})

    def searches(self, weights: Mapping[str, float]) -> list[ListSearch]:
        """Return the searches of all leaves; spaces of weight 0 are not searched.

        Args:
            weights: Space -> weight, for each of `spaces`.
        """
        return [
            ListSearch(leaf.guide, space, collection, weights[space], leaf.vectors[collection])
            for leaf in self.leaves
            for space, collection in self.spaces.items()
            if collection in leaf.vectors and weights[space] > 0
        ]


@dataclass(frozen=True, slots=True)
class LeafSources:
    """What retrievers may read.

    Attributes:
        encoder: All models.
        store: Vectors of indexed pictures.
    """

    encoder: Encoder
    store: VectorStore


@dataclass(frozen=True, slots=True)
class Retriever:
    """How leaves of one type are retrieved.

    Attributes:
        kind: What the record calls a query of this leaf.
        encode: Turns a leaf of the running query into vectors.
        encode_all: The same for several leaves of this type in one pass through the models; None to encode each by itself.
    """

    kind: Kind
    encode: Callable[[Any, RunningQuery, LeafSources], Awaitable[EncodedLeaf]]
    encode_all: Callable[[Sequence[Any], RunningQuery, LeafSources], Awaitable[list[EncodedLeaf]]] | None = None


async def _encode_text(leaf: Text, query: RunningQuery, sources: LeafSources) -> EncodedLeaf:
    return (await _encode_texts([leaf], query, sources))[0]


async def _encode_texts(leaves: Sequence[Text], query: RunningQuery, sources: LeafSources) -> list[EncodedLeaf]:
    with query.stopwatch.stage("encode"):
        if not query.resolved.spaces:
            return [EncodedLeaf(TEXT_GUIDE) for _ in leaves]
        words = [plain_words(leaf.words) for leaf in leaves]
        encoding = sources.encoder.encode_texts(words, deadline=query.resolved.deadline)
        texts = await query.in_time(encoding, "encoding the query")
    return [
        EncodedLeaf(
            TEXT_GUIDE,
            {collection: rows[row] for collection, rows in texts.projected.items()},
            {encoder: rows[row] for encoder, rows in texts.encoded.items()},
        )
        for row in range(len(leaves))
    ]


async def _read_image(leaf: Image, query: RunningQuery, sources: LeafSources) -> EncodedLeaf:
    def read() -> dict[str, Row]:
        points = {collection: sources.store.retrieve(collection, [leaf.image_id]) for collection in spaces.values()}
        return {collection: batch.vectors[0] for collection, batch in points.items() if len(batch)}

    spaces = query.resolved.spaces
    with query.stopwatch.stage("retrieve"):
        vectors = await query.in_time(asyncio.to_thread(read), "reading the picture's vectors")
    if spaces and not vectors:
        raise NotFoundError(
            f"no picture {leaf.image_id!r} is indexed", hint="take the id from a search result", image_id=leaf.image_id
        )
    return EncodedLeaf(PICTURE_GUIDE, vectors)


async def _embed_picture(leaf: Picture, query: RunningQuery, sources: LeafSources) -> EncodedLeaf:
    return (await _embed_pictures([leaf], query, sources))[0]


async def _embed_pictures(leaves: Sequence[Picture], query: RunningQuery, sources: LeafSources) -> list[EncodedLeaf]:
    if not query.resolved.spaces:
        return [EncodedLeaf(PICTURE_GUIDE) for _ in leaves]
    with query.stopwatch.stage("embed"):
        embedding = sources.encoder.embed_pictures([leaf.pixels for leaf in leaves], deadline=query.resolved.deadline)
        embedded = await query.in_time(embedding, "embedding the picture")
    return [
        EncodedLeaf(PICTURE_GUIDE, {collection: rows[row] for collection, rows in embedded.items()})
        for row in range(len(leaves))
    ]


async def _take_vectors(leaf: Vector, query: RunningQuery, sources: LeafSources) -> EncodedLeaf:
    known, spaces = sources.encoder.collections, query.resolved.spaces
    for space in leaf.by_space:
        if space not in known:
            raise UnknownNameError.among("space", space, list(known))
    vectors = {spaces[space]: vector for space, vector in leaf.by_space.items() if space in spaces}
    for collection, vector in vectors.items():
        dim = (await asyncio.to_thread(sources.store.info, collection)).dim
        if len(vector) != dim:
            raise InvalidRequestError(
                f"a vector has {len(vector)} numbers, the collection {collection!r} holds vectors of {dim}",
                hint="give a vector of the version that is searched",
            )
    if spaces and not vectors:
        raise InvalidRequestError(
            f"there are vectors for {sorted(leaf.by_space)}, but {sorted(spaces)} are searched",
            hint="search the spaces of the vectors",
        )
    return EncodedLeaf(PICTURE_GUIDE, vectors)


RETRIEVERS: Final[dict[type[Leaf], Retriever]] = {
    Text: Retriever("words", _encode_text, _encode_texts),
    Image: Retriever("similar", _read_image),
    Picture: Retriever("picture", _embed_picture, _embed_pictures),
    Vector: Retriever("picture", _take_vectors),  # vectors stand for a picture that was embedded elsewhere
}


def retriever_of(leaf: Leaf) -> Retriever:
    """Return the retriever of a leaf.

    Raises:
        InvalidRequestError: there is none for its type.
    """
    if type(leaf) not in RETRIEVERS:
        node = type(leaf).__name__
        known = ", ".join(sorted(one.__name__ for one in RETRIEVERS))
        raise InvalidRequestError(f"queries of the type {node!r} are not answered", hint=f"known: {known}", node=node)
    return RETRIEVERS[type(leaf)]


class RetrievalStage:
    """Retrieves the leaves of queries.

    Args:
        sources: What retrievers may read.
    """

    def __init__(self, sources: LeafSources) -> None:
        self._sources = sources

    async def encode(self, query: RunningQuery) -> EncodedQuery:
        """Retrieve all leaves at once, those of one type in one pass where their retriever can.

        Raises:
            InvalidRequestError: a leaf cannot be retrieved as it is.
            NotFoundError: a leaf names a picture that is not indexed.
            ModelUnavailableError: a model cannot be loaded.
            DeadlineExceededError: the deadline passed.
        """
        by_type: dict[type[Leaf], list[int]] = {}
        for number, leaf in enumerate(query.resolved.leaves):
            by_type.setdefault(type(leaf), []).append(number)
        groups = list(by_type.values())
        encoded = await asyncio.gather(
            *(self._encoded([query.resolved.leaves[number] for number in numbers], query) for numbers in groups)
        )
        found = {
            number: leaf
            for numbers, leaves_of_type in zip(groups, encoded, strict=True)
            for number, leaf in zip(numbers, leaves_of_type, strict=True)
        }
        leaves = tuple(found[number] for number in range(len(found)))
        spaces = query.resolved.spaces
        if not query.resolved.text:
            spaces = {space: name for space, name in spaces.items() if any(name in leaf.vectors for leaf in leaves)}
        avoided = frozenset(number for number, part in enumerate(query.resolved.composing.parts) if part.avoid)
        return EncodedQuery(leaves, spaces, avoided)

    async def _encoded(self, leaves: Sequence[Leaf], query: RunningQuery) -> list[EncodedLeaf]:
        """Return leaves of one type as they can be searched."""
        retriever = retriever_of(leaves[0])
        if retriever.encode_all is not None and len(leaves) > 1:
            return await retriever.encode_all(leaves, query, self._sources)
        return list(await asyncio.gather(*(retriever.encode(leaf, query, self._sources) for leaf in leaves)))
