"""Plan of an export: its files one after the other, with what the catalog says now of the pictures in each.

Files are made of whole slices in the order in which those were added, so the same catalog gives the same files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lodestone.catalog.records import ImageRecord, ImageState, SliceRecord
from lodestone.export.matching import Matcher
from lodestone.export.request import ExportFormat, PictureBytes, VectorType
from lodestone.export.selection import ExportSelection
from lodestone.export.tasks import ExportedPicture, ExportedSlice, ExportTask, RootAccess
from lodestone.facts.points import point_fields
from lodestone.indexing.parts.registry import further_parts
from lodestone.indexing.sync.load_groups import PlannedSlice, payloads_of
from lodestone.indexing.tasks import META_PART
from lodestone.sources.boundaries import boundaries_of, enclosure_of
from lodestone.store.algebra import EVERY_POINT, fields_of
from lodestone.store.base import Payload

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime

SUFFIXES: Final = {ExportFormat.PARQUET: ".parquet", ExportFormat.WEBDATASET: ".tar"}
_FACTS_BYTES: Final = 600  # of a picture, about
_THUMBNAIL_BYTES: Final = 16 << 10
_MEMBER_BYTES: Final = 1024  # of a member of an archive beside its content, at most


@dataclass(frozen=True, slots=True)
class CatalogState:
    """What tells whether a corpus has changed: the number of its newest slice, and of its pictures that can be found."""

    newest: int
    active: int


class ExportPlan:
    """Plans the files of an export.

    Args:
        runtime: The opened home.
        selection: What the files hold.
    """

    def __init__(self, runtime: Runtime, selection: ExportSelection) -> None:
        self._runtime = runtime
        self._selection = selection
        self._matcher = None if selection.filter == EVERY_POINT else Matcher(selection.filter, selection.fields)
        self._reads_parts = not fields_of(selection.filter).isdisjoint(selection.fields)
        self._width = sum(projection.dim for projection in selection.projections.values())
        self._parts = {
            *(part for space in selection.projections for part in selection.required(space)),
            *(part.file for part in further_parts() if selection.part_columns or self._reads_parts),
        }

    def state(self) -> dict[str, CatalogState]:
        """Return the present state of each corpus by its id."""
        catalog = self._runtime.catalog
        return {
            corpus.corpus_id: CatalogState(
                catalog.newest_slice(corpus.corpus_id), catalog.count_images(corpus.corpus_id, ImageState.ACTIVE)
            )
            for corpus in self._selection.corpora
        }

    def most_pictures(self, state: Mapping[str, CatalogState]) -> int:
        """Return the number of pictures in a state of the catalog; 0 where a filter lets some of them through."""
        return sum(one.active for one in state.values()) if self._matcher is None else 0

    def files(self) -> Iterator[ExportTask]:
        """Yield the files in order. The catalog is read as they are asked for."""
        selection, catalog = self._selection, self._runtime.catalog
        corpora = {corpus.corpus_id: corpus.name for corpus in selection.corpora}
        boundaries = boundaries_of(self._runtime.settings)
        roots = {
            root.root_id: RootAccess(root, enclosure_of(root, boundaries))
            for root in catalog.roots(None)
            if root.corpus_id in corpora
        }
        suffix = SUFFIXES[selection.request.format]
        for number, slices in enumerate(self._groups()):
            images = [picture.image for one in slices for picture in one.pictures]
            yield ExportTask(
                f"{number:05d}{suffix}",
                {corpus_id: corpora[corpus_id] for corpus_id in dict.fromkeys(one.corpus_id for one in slices)},
                {root_id: roots[root_id] for root_id in dict.fromkeys(image.root_id for image in images)},
                tuple(slices),
            )

    def _groups(self) -> Iterator[list[ExportedSlice]]:
        """Yield slices that make up a file."""
        bound = self._selection.request.bounded
        group: list[ExportedSlice] = []
        pictures = size = 0
        for one in self._slices():
            more, larger = len(one.pictures), sum(self._bytes_of(picture.image) for picture in one.pictures)
            is_full = (bound.pictures and pictures + more > bound.pictures) or (bound.bytes and size + larger > bound.bytes)
            if group and is_full:
                yield group
                group, pictures, size = [], 0, 0
            group.append(one)
            pictures, size = pictures + more, size + larger
        if group:
            yield group

    def _bytes_of(self, image: ImageRecord) -> int:
        """Return about how many bytes a picture takes in a file before compression."""
        selection = self._selection
        number = 2 if selection.request.dtype is VectorType.FLOAT16 else 4
        content = {PictureBytes.ORIGINALS: image.size, PictureBytes.THUMBNAILS: _THUMBNAIL_BYTES, PictureBytes.NONE: 0}
        members = 0 if selection.request.format is ExportFormat.PARQUET else 2 + len(selection.projections)
        return _FACTS_BYTES + members * _MEMBER_BYTES + number * self._width + content[selection.pictures]

    def _slices(self) -> Iterator[ExportedSlice]:
        """Yield the slices of which any picture is exported."""
        catalog = self._runtime.catalog
        for corpus in self._selection.corpora:
            newest = catalog.newest_slice(corpus.corpus_id)
            for record in catalog.live_slices(corpus.corpus_id, until=newest):
                one = self._slice(record)
                if one.pictures:
                    yield one

    def _slice(self, record: SliceRecord) -> ExportedSlice:
        """Return a slice with those of its pictures that are exported."""
        catalog, selection = self._runtime.catalog, self._selection
        receipts = catalog.receipts(record.slice_id)
        images = catalog.slice_images(record.slice_id, states=(ImageState.ACTIVE,)) if META_PART in receipts else []
        if self._matcher is not None and images:
            planned = PlannedSlice(
                record.slice_id, receipts, [image.image_id for image in images], list(map(point_fields, images))
            )
            matched = self._matcher.matching(planned.image_ids, self._payloads(planned))
            images = [image for image, is_matched in zip(images, matched, strict=True) if is_matched]
        ids = [image.image_id for image in images]
        captions = catalog.slice_captions(record.slice_id) if ids and selection.has_captions else {}
        tags = catalog.tags(ids) if "tags" in selection.columns else {}
        return ExportedSlice(
            record.corpus_id,
            record.fingerprint,
            {part: receipt for part, receipt in receipts.items() if part in self._parts},
            tuple(
                ExportedPicture(
                    image,
                    tuple(captions.get(image.image_id, ())),
                    tuple(sorted((tag.text, tag.source, tag.score) for tag in tags.get(image.image_id, ()))),
                )
                for image in images
            ),
        )

    def _payloads(self, planned: PlannedSlice) -> Sequence[Payload]:
        return payloads_of(self._runtime.embeddings, planned) if self._reads_parts else planned.payloads
