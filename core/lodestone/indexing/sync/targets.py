"""Target collections of a home, and how their points are made from catalog and Parquet files.

There is one collection for each (space, version), with one point per picture, and one of captions. Making points runs no model:
they are projected from stored outputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.embeddings.slice_parts import LIVING
from lodestone.catalog.identity import caption_id
from lodestone.catalog.records import ImageState, SliceRecord
from lodestone.facts.points import point_fields
from lodestone.files.area import FileArea
from lodestone.indexing.parts.registry import SliceParts, further_fields
from lodestone.indexing.sync.load_groups import CaptionPoints, LoadGroup, PicturePoints, PlannedSlice, PointMaker
from lodestone.indexing.tasks import META_PART
from lodestone.spaces.base import Projection
from lodestone.spaces.names import CAPTIONS, captions_collection
from lodestone.store.base import Filter, MatchAny, PointBatch, VectorStore
from lodestone.text_encoders.base import TextEncoder
from lodestone_schemas.collections import CAPTION_FIELDS, PAYLOAD_FIELDS, CollectionSpec, FieldKind

if TYPE_CHECKING:
    from lodestone.config.profiles import Profile
    from lodestone.config.store import StoreSettings

_PAGE: Final = 2048


class Target(ABC):
    """A collection whose points are made from catalog and Parquet files."""

    fields: ClassVar[tuple[tuple[str, FieldKind], ...]]
    promoted = True  # whether its alias shall point at it

    def __init__(
        self, *, catalog: Catalog, embeddings: FileArea, alias: str, collection: str, dim: int, required: tuple[str, ...]
    ) -> None:
        self.catalog = catalog
        self.embeddings = embeddings
        self.alias = alias
        self.collection = collection
        self.dim = dim
        self.required = required  # parts that a slice must have before it can be loaded

    def spec(self, settings: StoreSettings, profile: Profile) -> CollectionSpec:
        """Return the specification of the collection under these settings."""
        fields = (*self.fields, *further_fields())
        return settings.specify(self.collection, dim=self.dim, fields=fields, profile=profile)

    @property
    @abstractmethod
    def maker(self) -> PointMaker:
        """Return what makes the points from a planned group; it needs no catalog."""

    @abstractmethod
    def plan_slice(self, record: SliceRecord) -> PlannedSlice:
        """Return what the catalog says now of a slice and of those of its pictures that can be found."""

    def plan(self, slices: Sequence[SliceRecord]) -> LoadGroup:
        """Return what the catalog says now of the slices."""
        return LoadGroup(self.collection, tuple(self.plan_slice(record) for record in slices))

    def points(self, slices: Sequence[SliceRecord]) -> PointBatch:
        """Return the points of those pictures of the slices that can be found now."""
        return self.maker.points(self.embeddings, self.plan(slices))

    @abstractmethod
    def delete(self, store: VectorStore, image_ids: Sequence[str]) -> None:
        """Remove all points of these pictures."""

    @abstractmethod
    def orphan_points(self, points: PointBatch) -> list[str]:
        """Return the ids of those points that the catalog does not know."""

    @abstractmethod
    def expected(self) -> tuple[int, int]:
        """Return the least and the largest valid number of points; they differ while pictures wait to be embedded again."""

    @abstractmethod
    def point_ids(self, record: SliceRecord) -> list[str]:
        """Return the ids of the points that the collection should have of a slice, read from the catalog alone."""

    def warm_up(self) -> None:  # noqa: B027 - most need nothing
        """Load what `points` needs. To be called once, before several threads call `points`."""

    def clear(self, store: VectorStore, group: LoadGroup) -> None:  # noqa: B027 - the point of a picture is replaced by its id
        """Remove older points of the group's pictures that an upsert of the new ones would leave behind."""

    def write(self, store: VectorStore, slices: Sequence[SliceRecord], points: PointBatch) -> None:
        """Replace the points of the slices by these, durably.

        Args:
            store: Vector store that holds the collection.
            slices: Slices that the points belong to.
            points: Result of `points` for the slices.
        """
        self.clear(store, self.plan(slices))
        if len(points):
            store.upsert(self.collection, points)


class SpaceTarget(Target):
    """The collection of one (space, version).

    Args:
        catalog: Knows the pictures.
        embeddings: Area of the stored outputs.
        parts: Names of the parts that hold them.
        projection: Turns outputs into vectors.
        promoted: False for a version that a model swap keeps beside the one that is searched.
    """

    fields = PAYLOAD_FIELDS

    def __init__(
        self, *, catalog: Catalog, embeddings: FileArea, parts: SliceParts, projection: Projection, promoted: bool = True
    ) -> None:
        self.promoted = promoted
        backbones = dict.fromkeys(key.backbone for key in projection.requires)
        super().__init__(
            catalog=catalog,
            embeddings=embeddings,
            alias=projection.name,
            collection=projection.collection,
            dim=projection.dim,
            required=(*(parts.backbones[name] for name in backbones), META_PART),
        )
        self._parts = parts.backbones
        self._projection = projection

    @property
    def maker(self) -> PicturePoints:
        """Return what projects the stored outputs, with the projection's weights loaded."""
        self.warm_up()
        return PicturePoints(self._projection, self._parts, self.dim)

    def plan_slice(self, record: SliceRecord) -> PlannedSlice:
        """Return the slice's receipts and its active pictures with their filter fields."""
        return _planned(self.catalog, record)

    def point_ids(self, record: SliceRecord) -> list[str]:
        """Return the ids of the slice's active pictures."""
        return [image.image_id for image in self.catalog.slice_images(record.slice_id, states=(ImageState.ACTIVE,))]

    def warm_up(self) -> None:
        """Load the projection's weights."""
        self._projection.warm_up()

    def delete(self, store: VectorStore, image_ids: Sequence[str]) -> None:
        """Delete the pictures' points, which have the pictures' ids."""
        store.delete(self.collection, image_ids)

    def orphan_points(self, points: PointBatch) -> list[str]:
        """Return the ids of points whose picture is neither active nor pending."""
        known = self.catalog.images(points.ids)
        living = {image_id for image_id, image in known.items() if image.state in {ImageState.ACTIVE, ImageState.PENDING}}
        return [image_id for image_id in points.ids if image_id not in living]

    def expected(self) -> tuple[int, int]:
        """Return the bounds of the number of points.

        They are active pictures without those of unfinished slices, and active plus pending pictures.
        """
        active = self.catalog.count_images(state=ImageState.ACTIVE)
        waiting = sum(len(self.point_ids(record)) for record in self.catalog.unfinished_slices(self.required))
        return active - waiting, active + self.catalog.count_images(state=ImageState.PENDING)


class CaptionTarget(Target):
    """The collection of captions in one version of the text encoder: one point per caption.

    Args:
        catalog: Knows the captions.
        embeddings: Area of their vectors.
        parts: Names of the parts that hold them.
        encoder: Encoder of the vectors; it is not loaded.
    """

    fields = CAPTION_FIELDS

    def __init__(self, *, catalog: Catalog, embeddings: FileArea, parts: SliceParts, encoder: TextEncoder) -> None:
        super().__init__(
            catalog=catalog,
            embeddings=embeddings,
            alias=CAPTIONS,
            collection=captions_collection(encoder.version),
            dim=encoder.dim,
            required=(parts.captions, META_PART),
        )
        self._part = parts.captions

    @property
    def maker(self) -> CaptionPoints:
        """Return what reads the stored vectors."""
        return CaptionPoints(self._part, self.dim)

    def plan_slice(self, record: SliceRecord) -> PlannedSlice:
        """Return the slice's receipts, its active pictures with their filter fields, and the ids of their captions."""
        planned = _planned(self.catalog, record, clear=LIVING)
        captioned = bool(planned.receipts[self._part].rows)
        return replace(planned, captions=frozenset(_caption_ids(self.catalog, planned.image_ids) if captioned else ()))

    def clear(self, store: VectorStore, group: LoadGroup) -> None:
        """Remove all captions of the slices' pictures, of which they may have fewer now."""
        self.delete(store, group.cleared)

    def point_ids(self, record: SliceRecord) -> list[str]:
        """Return the ids of the captions of the slice's active pictures, sorted."""
        images = self.catalog.slice_images(record.slice_id, states=(ImageState.ACTIVE,))
        return sorted(_caption_ids(self.catalog, [image.image_id for image in images]))

    def delete(self, store: VectorStore, image_ids: Sequence[str]) -> None:
        """Delete all caption points of the pictures."""
        if image_ids:
            store.delete_matching(self.collection, Filter(must=(MatchAny("image", tuple(image_ids)),)))

    def orphan_points(self, points: PointBatch) -> list[str]:
        """Return the ids of points whose caption the catalog does not have."""
        known = _caption_ids(self.catalog, {str(payload["image"]) for payload in points.payloads})
        return [key for key in points.ids if key not in known]

    def expected(self) -> tuple[int, int]:
        """Return the bounds of the number of points: captions of active pictures, and those of active and pending pictures.

        The lower bound is 0 while any slice is unfinished.
        """
        active, pending = 0, 0
        captioned = (image_id for image_id, _ in self.catalog.captioned_images())
        while ids := list(islice(captioned, _PAGE)):
            images = self.catalog.images(ids)
            for image_id, records in self.catalog.captions(ids).items():
                count = len({(record.source, record.text) for record in records})
                if images[image_id].state is ImageState.ACTIVE:
                    active += count
                else:
                    pending += count
        unfinished, _ = self.catalog.count_unfinished(self.required)
        return 0 if unfinished else active, active + pending


def _planned(catalog: Catalog, record: SliceRecord, *, clear: Collection[ImageState] = ()) -> PlannedSlice:
    """Plan the slice's active pictures; older points of those in the states `clear` are removed first."""
    receipts = catalog.receipts(record.slice_id)
    images = catalog.slice_fields(record.slice_id, states={ImageState.ACTIVE, *clear})
    active = [image for image in images if image.state is ImageState.ACTIVE]
    return PlannedSlice(
        record.slice_id,
        receipts,
        [image.image_id for image in active],
        list(map(point_fields, active)),
        cleared=[image.image_id for image in images if image.state in clear],
    )


def _caption_ids(catalog: Catalog, image_ids: Collection[str]) -> set[str]:
    return {
        caption_id(image_id, record.source, record.text)
        for image_id, records in catalog.captions(image_ids).items()
        for record in records
    }
