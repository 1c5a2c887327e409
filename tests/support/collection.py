"""A small searchable collection for tests: real photos, models, catalog and embedded store; only the index job is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image
from tests.support.engines import hub_around
from tests.support.models import model_context
from tests.support.photos import CAT, COFFEE, PERSON, ROCKET, photo
from tests.support.pictures import photo as made_photo

from lodestone.backbones.base import Backbone, BackboneOutputs, OutputKey
from lodestone.backbones.registry import make_backbone
from lodestone.catalog.catalog import Catalog
from lodestone.catalog.identity import caption_id
from lodestone.catalog.pictures.taken import taken_fields
from lodestone.catalog.records import CaptionRecord, Corpus, ImageRecord, ImageState, Root
from lodestone.config.profiles import PROFILES, Profile
from lodestone.config.settings import QuerySettings
from lodestone.generators.engines.exemplar import Exemplar
from lodestone.query.encoder import LocalEncoder
from lodestone.query.engine import QueryEngine
from lodestone.sources.uris import folders_of
from lodestone.spaces.base import Projection
from lodestone.spaces.labels import LabelSpace
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import PointBatch, VectorStore
from lodestone.store.edge.store import EdgeStore
from lodestone.text_encoders.base import TextEncoder
from lodestone.text_encoders.registry import make_text_encoder
from lodestone_schemas.collections import CAPTION_FIELDS, CollectionSpec


class OneBackboneLabels(LabelSpace):
    """A second real space that takes text: label matching with one backbone and few classes."""

    name = "labels0"

    def __init__(self) -> None:
        super().__init__(model_context(), backbones=("efficientnet-lite0",), top=5)


PHOTOS = (CAT, COFFEE, ROCKET, PERSON, "coins.png", "horse.png", "motorcycle_left.png", "hubble_deep_field.jpg", "grass.png")


@dataclass(frozen=True)
class Models:
    """Loaded once a test run."""

    text_encoder: TextEncoder
    backbones: Mapping[str, Backbone]
    projections: Mapping[str, Projection]

    def encoder(self) -> LocalEncoder:
        return LocalEncoder(
            projections=self.projections,
            text_encoders={self.text_encoder.name: self.text_encoder},
            backbones=self.backbones,
            threads=1,
        )

    def embed(self, pictures: Sequence[Image.Image]) -> dict[str, np.ndarray]:
        """Space -> (n, dim)."""
        columns = {}
        for name, backbone in self.backbones.items():
            for output, values in backbone.embed(np.stack([backbone.prepare(one) for one in pictures])).items():
                columns[OutputKey(name, output)] = values
        outputs = BackboneOutputs(columns)
        return {space: projection.project(outputs) for space, projection in self.projections.items()}


def load_models() -> Models:
    context = model_context()
    spaces: tuple[Projection, ...] = (LabelSpace(context), OneBackboneLabels())
    models = Models(
        make_text_encoder("minilm", context),
        {name: make_backbone(name, context) for name in ("efficientnet-lite0", "efficientnet-lite2")},
        {space.name: space for space in spaces},
    )
    models.text_encoder.warm_up(threads=1)
    for one in (*models.backbones.values(),):
        one.warm_up(threads=1)
    for projection in models.projections.values():
        projection.warm_up()
    return models


PROFILE: Profile = replace(PROFILES["embedded"], spaces=("labels", "labels0"), guides=4)


class Collection:
    """Photos of one or more corpora, embedded and loaded; `ids` by uri."""

    def __init__(self, home: Path, models: Models, store: VectorStore | None = None) -> None:
        self.models = models
        self.catalog = Catalog.open(home / "catalog.sqlite")
        self.store = store or EdgeStore(home / "store", aliases=JsonAliasTable(home / "aliases.json"))
        self.ids: dict[str, str] = {}
        for projection in models.projections.values():
            self.store.create(CollectionSpec(projection.collection, projection.dim))
            self.store.set_alias(projection.name, projection.collection)

    def add(
        self,
        corpus_name: str,
        pictures: Mapping[str, Image.Image],
        *,
        root: str = "/photos",
        taken_at: int | None = None,
        utc_offset_minutes: int | None = None,
        taken_precision: str | None = None,
    ) -> None:
        """Pictures by uri."""
        corpus: Corpus = self.catalog.ensure_corpus(corpus_name)
        place: Root = self.catalog.ensure_root(corpus.corpus_id, root)
        minted = self.catalog.mint_image_ids(corpus.corpus_id, place.name, pictures)
        self.catalog.add_images(
            [
                ImageRecord(
                    minted[uri],
                    corpus.corpus_id,
                    place.root_id,
                    uri,
                    hash=f"{number:064x}",
                    size=1,
                    mtime_ns=0,
                    state=ImageState.ACTIVE,
                    width=image.width,
                    height=image.height,
                    format="PNG",
                    taken_at=taken_at,
                    utc_offset_minutes=utc_offset_minutes,
                    taken_precision=taken_precision,
                )
                for number, (uri, image) in enumerate(pictures.items())
            ]
        )
        payloads = [
            {"corpus": corpus.corpus_id, "root": place.root_id, "folders": list(folders_of(uri))}
            | taken_fields(taken_at, utc_offset_minutes, taken_precision)
            for uri in pictures
        ]
        for space, vectors in self.models.embed(list(pictures.values())).items():
            self.store.upsert(
                self.models.projections[space].collection, PointBatch([minted[uri] for uri in pictures], vectors, payloads)
            )
        self.ids |= minted

    def caption(self, captions: Mapping[str, Sequence[str]]) -> None:
        """Captions by uri."""
        if "captions" not in self.store.aliases():
            self.store.create(CollectionSpec("captions-minilm-1", 384, fields=CAPTION_FIELDS))
            self.store.set_alias("captions", "captions-minilm-1")
        rows = [(self.ids[uri], text) for uri, texts in captions.items() for text in texts]
        images = self.catalog.images([image_id for image_id, _ in rows])
        self.catalog.set_captions(
            {
                self.ids[uri]: [CaptionRecord(self.ids[uri], "sidecar", text) for text in texts]
                for uri, texts in captions.items()
            }
        )
        self.store.upsert(
            "captions-minilm-1",
            PointBatch(
                [caption_id(image_id, "sidecar", text) for image_id, text in rows],
                self.models.text_encoder.encode([text for _, text in rows]),
                [
                    {
                        "image": image_id,
                        "source": "sidecar",
                        "corpus": images[image_id].corpus_id,
                        "root": images[image_id].root_id,
                        "folders": list(folders_of(images[image_id].uri)),
                    }
                    | taken_fields(
                        images[image_id].taken_at, images[image_id].utc_offset_minutes, images[image_id].taken_precision
                    )
                    for image_id, _ in rows
                ],
            ),
        )

    def engine(self, **changed: object) -> QueryEngine:
        """An engine over it, with the exemplar generator, or `generators` by name."""
        generators = changed.pop("generators", {"exemplar": Exemplar(self.store, self.catalog)})
        return QueryEngine(
            **{
                "store": self.store,
                "catalog": self.catalog,
                "encoder": self.models.encoder(),
                "profile": PROFILE,
                "settings": QuerySettings(),
                "hub": hub_around(generators),
            }
            | changed
        )  # type: ignore[arg-type]

    def close(self) -> None:
        self.store.close()
        self.catalog.close()


def photos() -> dict[str, Image.Image]:
    """The photographs inside scikit-image, by file name."""
    return {name: photo(name) for name in PHOTOS}


def fillers(count: int, *, folder: str = "more") -> dict[str, Image.Image]:
    """Made-up pictures to page through."""
    return {f"{folder}/{number:03}.jpg": made_photo((64, 48), seed=number) for number in range(count)}
