"""Fused collections as targets of a sync: one vector a picture, of all spaces of a composition (`lodestone.composed.fused`).

They are made from the same stored outputs as the collections of the spaces, so no model runs, and no vector is read back from
the store. New and changed pictures, deletions and new versions of a space reach them as they reach any other collection: a new
version of a space is another layout, and so another collection, which takes the alias once it is loaded and built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lodestone.catalog.records import ImageState, SliceRecord
from lodestone.composed.fused import FUSED, FusedLayout, FusedSpace
from lodestone.config.compositions import CAPTIONS_SPACE, Composition
from lodestone.indexing.sync.load_groups import CaptionPoints, LoadGroup, PicturePoints, PlannedSlice, PointMaker
from lodestone.indexing.sync.targets import CaptionTarget, SpaceTarget, Target
from lodestone.store.base import PointBatch
from lodestone_schemas.collections import FUSED_FIELDS, FUSED_GRAPH, HOLDS, CollectionSpec, Quantization

if TYPE_CHECKING:
    from lodestone.config.profiles import Profile
    from lodestone.config.store import StoreSettings
    from lodestone.files.area import FileArea

Rows = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class FusedPoints(PointMaker):
    """Makes one point per picture: its vectors in all spaces of a composition, joined.

    Attributes:
        layout: What a fused vector consists of.
        makers: Space -> what makes the points of its own collection.
        captions: Makes the points of captions, whose normalised mean is the picture's vector; None where they are not fused.
        dim: Length of the fused vectors.
    """

    layout: FusedLayout
    makers: Mapping[str, PicturePoints]
    captions: CaptionPoints | None
    dim: int

    def points(self, embeddings: FileArea, group: LoadGroup) -> PointBatch:
        """Make the points of every space and join them; pictures that lack one of the stored outputs are left out."""
        made = {space: maker.points(embeddings, group) for space, maker in self.makers.items()}
        first = next(iter(made.values()))
        common = set(first.ids).intersection(*(batch.ids for batch in made.values()))
        ids = [image_id for image_id in first.ids if image_id in common]
        vectors = {space: _rows_of(ids, batch) for space, batch in made.items()}
        if self.captions is not None:
            vectors[CAPTIONS_SPACE] = self._described(embeddings, group, ids, self.captions)
        if not ids:
            return PointBatch([], np.empty((0, self.dim), np.float32), [])
        row_of = {image_id: row for row, image_id in enumerate(first.ids)}
        payloads = [
            {**first.payloads[row_of[image_id]], HOLDS: held}
            for image_id, held in zip(ids, self.layout.holds(vectors), strict=True)
        ]
        return PointBatch(ids, self.layout.join(vectors), payloads)

    def _described(self, embeddings: FileArea, group: LoadGroup, ids: Sequence[str], captions: CaptionPoints) -> Rows:
        described = replace(group, slices=tuple(replace(planned, captions=planned.described) for planned in group.slices))
        batch = captions.points(embeddings, described)
        return mean_rows(ids, [str(payload["image"]) for payload in batch.payloads], batch.vectors)


class FusedTarget(SpaceTarget):
    """The fused collection of a composition in one version of each of its spaces.

    Args:
        layout: What its vectors consist of.
        spaces: Space -> target of its own collection.
        captions: Target of the captions; None where they are not fused.
    """

    fields = FUSED_FIELDS

    def __init__(self, *, layout: FusedLayout, spaces: Mapping[str, SpaceTarget], captions: CaptionTarget | None) -> None:
        targets: list[Target] = [*spaces.values(), *([] if captions is None else [captions])]
        Target.__init__(
            self,
            catalog=targets[0].catalog,
            embeddings=targets[0].embeddings,
            alias=layout.alias,
            collection=layout.collection,
            dim=layout.dim,
            required=tuple(dict.fromkeys(part for target in targets for part in target.required)),
        )
        self._layout = layout
        self._spaces = spaces
        self._captions = captions

    def spec(self, settings: StoreSettings, profile: Profile) -> CollectionSpec:
        """Return the specification of the collection, whose graph has at least the edges that every weighting needs.

        Binary vectors do not find what unequal weights ask for (docs/adr/0020), so int8 takes their place.
        """
        spec = super().spec(settings, profile)
        graph = spec.hnsw
        edges = replace(graph, m=max(graph.m, FUSED_GRAPH.m), ef_construct=max(graph.ef_construct, FUSED_GRAPH.ef_construct))
        binary = spec.quantization is Quantization.BINARY
        return replace(spec, hnsw=edges, quantization=Quantization.INT8 if binary else spec.quantization)

    @property
    def maker(self) -> FusedPoints:  # type: ignore[override]  # it joins what the other makers make
        """Return what makes the points of all spaces and joins them."""
        captions = None if self._captions is None else self._captions.maker
        return FusedPoints(self._layout, {name: target.maker for name, target in self._spaces.items()}, captions, self.dim)

    def plan_slice(self, record: SliceRecord) -> PlannedSlice:
        """Return the slice's receipts, its active pictures with their filter fields, and which captions they have."""
        planned = super().plan_slice(record)
        if self._captions is None:
            return planned
        described = self._captions.plan_slice(record).captions or frozenset()
        return replace(planned, described=described)

    def warm_up(self) -> None:
        """Load the weights of all projections."""
        for target in self._spaces.values():
            target.warm_up()


def fused_targets(
    compositions: Sequence[Composition],
    spaces: Mapping[str, SpaceTarget],
    captions: CaptionTarget,
    *,
    existing: Mapping[str, str],
) -> list[FusedTarget]:
    """Return the fused collections that a home should have.

    Args:
        compositions: The compositions of the home.
        spaces: Space -> target of its collection, in the version in force.
        captions: Target of the captions.
        existing: Aliases of the store; a collection that exists stays while there are half as many pictures.
    """
    targets: list[FusedTarget] = []
    for composition in compositions:
        layout = FusedLayout(
            composition.name,
            tuple(
                FusedSpace(name, target.collection, target.dim, name in composition.optional)
                for name in composition.spaces
                for target in (captions if name == CAPTIONS_SPACE else spaces[name],)
            ),
        )
        states = () if composition.fused is not None else (ImageState.ACTIVE, ImageState.PENDING)
        pictures = sum(captions.catalog.count_images(state=state) for state in states)
        if composition.keeps_fused(pictures, exists=layout.alias in existing):
            own = {name: spaces[name] for name in composition.spaces if name != CAPTIONS_SPACE}
            with_captions = captions if CAPTIONS_SPACE in composition.spaces else None
            targets.append(FusedTarget(layout=layout, spaces=own, captions=with_captions))
    return targets


def is_fused(name: str) -> bool:
    """Return whether an alias or a collection is a fused one."""
    return name.startswith(f"{FUSED}.")


def mean_rows(ids: Sequence[str], owners: Sequence[str], vectors: Rows) -> Rows:
    """Return the normalised mean of each picture's vectors, (len(ids), dim) float32, NaN for those without any.

    Args:
        ids: The pictures.
        owners: The picture of each vector.
        vectors: (len(owners), dim) float32.
    """
    row_of = {image_id: row for row, image_id in enumerate(ids)}
    known = [number for number, owner in enumerate(owners) if owner in row_of]
    rows = [row_of[owners[number]] for number in known]
    sums = np.zeros((len(ids), vectors.shape[1]), np.float32)
    np.add.at(sums, rows, vectors[known])
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    means: Rows = np.divide(sums, lengths, out=np.full_like(sums, np.nan), where=lengths > 0)
    return means


def _rows_of(ids: Sequence[str], batch: PointBatch) -> Rows:
    if batch.ids == ids:
        return batch.vectors
    row_of = {point_id: row for row, point_id in enumerate(batch.ids)}
    return batch.vectors[[row_of[image_id] for image_id in ids]]
