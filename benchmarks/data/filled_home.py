"""Homes filled with pictures that do not exist: catalog rows, random vectors in every space, and short captions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.identity import caption_id
from lodestone.catalog.records import CaptionRecord, ImageRecord, ImageState
from lodestone.config.settings import ModelSettings
from lodestone.models.cache import ModelCache
from lodestone.models.context import ModelContext
from lodestone.spaces.base import Projection
from lodestone.spaces.names import CAPTIONS, captions_collection
from lodestone.store.base import PointBatch, VectorStore
from lodestone.text_encoders.registry import make_text_encoder
from lodestone_schemas.collections import CAPTION_FIELDS, CollectionSpec

ADJECTIVES = ("old", "red", "wet", "young", "small", "sleeping", "running", "broken", "wooden", "smiling")
NOUNS = ("dog", "bicycle", "child", "boat", "horse", "man in a hat", "woman", "street", "cat", "truck")
PLACES = ("at the beach", "in the snow", "on a roof", "in a kitchen", "by the river", "in a field", "on stage", "at night")
BATCH = 1000


def sentences(count: int) -> list[str]:
    """Return short descriptions, the same ones for every call."""
    rng = np.random.default_rng(7)
    words = [(rng.choice(ADJECTIVES), rng.choice(NOUNS), rng.choice(PLACES)) for _ in range(count)]
    return [f"a {adjective} {noun} {place}" for adjective, noun, place in words]


def fill(catalog: Catalog, store: VectorStore, spaces: Sequence[Projection], *, points: int, captions: Sequence[str]) -> None:
    """Enter pictures that do not exist, with random vectors in every space.

    Args:
        catalog: Catalog without pictures.
        store: Vector store without collections.
        spaces: Spaces to fill.
        points: Number of pictures.
        captions: Captions of the first pictures, one each.
    """
    rng = np.random.default_rng(0)
    corpus = catalog.ensure_corpus("bench")
    root = catalog.ensure_root(corpus.corpus_id, "/bench")
    uris = [f"{number % 50:02}/{number:06}.jpg" for number in range(points)]
    ids = catalog.mint_image_ids(corpus.corpus_id, root.name, uris)
    payload = {"corpus": corpus.corpus_id, "root": root.root_id}
    for start in range(0, points, BATCH):
        batch = uris[start : start + BATCH]
        catalog.add_images(
            [
                ImageRecord(ids[uri], corpus.corpus_id, root.root_id, uri, f"{start + row:064x}", 1, 0, ImageState.ACTIVE)
                for row, uri in enumerate(batch)
            ]
        )
        for space in spaces:
            store.create(CollectionSpec(space.collection, space.dim))
            vectors = rng.normal(size=(len(batch), space.dim)).astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            payloads = [{**payload, "folders": ["", uri[:2]]} for uri in batch]
            store.upsert(space.collection, PointBatch([ids[uri] for uri in batch], vectors, payloads))
    for space in spaces:
        store.set_alias(space.name, space.collection)
    if captions:
        encoder = make_text_encoder("minilm", context())
        encoder.warm_up()
        owners = [ids[uri] for uri in uris[: len(captions)]]
        catalog.set_captions(
            {owner: [CaptionRecord(owner, "table", text)] for owner, text in zip(owners, captions, strict=True)}
        )
        collection = captions_collection(encoder.version)
        store.create(CollectionSpec(collection, encoder.dim, fields=CAPTION_FIELDS))
        store.upsert(
            collection,
            PointBatch(
                [caption_id(owner, "table", text) for owner, text in zip(owners, captions, strict=True)],
                encoder.encode(captions),
                [{**payload, "image": owner, "source": "table", "folders": [""]} for owner in owners],
            ),
        )
        store.set_alias(CAPTIONS, collection)


def context() -> ModelContext:
    """Return the context that reads converted models from the cache that production uses."""
    return ModelContext(ModelCache(ModelSettings().cache))
