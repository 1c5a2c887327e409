"""Comparison of sidecar and table captions with the catalog, without reading a pixel.

When the captions of an embedded picture changed, its slice's captions part is declared unfinished: only the texts are encoded
again. (Captions inside a picture's own file change with its content, so they are read when its pixels are.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import CaptionRecord, ImageRecord, ImageState
from lodestone.files.beneath import Boundaries, Enclosure
from lodestone.imaging.dates import DateSource
from lodestone.indexing.tasks import EMBEDDED_SOURCES
from lodestone.sources.base import FoundFile
from lodestone.sources.boundaries import enclosure_of
from lodestone.sources.captions import Caption, CaptionSource, CaptionTable
from lodestone.sources.sidecars import Beside, SidecarReader

_BATCH: Final = 1000
_WEAKER: Final = (DateSource.NAME, DateSource.SIDECAR)  # dates that a file beside the picture replaces


@dataclass(slots=True)
class Recaptioner:
    """Updates the catalog's sidecar and table captions.

    Attributes:
        catalog: Read and written.
        part: Name of the captions part.
        boundaries: What may be opened of the roots.
        changed: Number of pictures whose captions this run changed.
        sidecars: Reads the files beside pictures.
    """

    catalog: Catalog
    part: str
    boundaries: Boundaries = field(default_factory=Boundaries)
    changed: int = 0
    sidecars: SidecarReader = field(default_factory=SidecarReader)
    _facts: dict[str, Beside] = field(default_factory=dict)  # by picture: dates and places in files beside it
    _enclosures: dict[str, Enclosure | None] = field(default_factory=dict)  # by root

    def compare(self, files: Sequence[tuple[ImageRecord, FoundFile]]) -> None:
        """Compare a batch of files with their sidecars, and update the catalog."""
        captions: dict[str, tuple[Caption, ...]] = {}
        for image, file in files:
            beside = self._beside(file, image.root_id)
            captions[image.image_id] = beside.captions
            if beside.date is not None or beside.place is not None:
                self._facts[image.image_id] = beside
        self._set({image.image_id: image for image, _ in files}, captions, CaptionSource.SIDECAR)

    def read_again(self, images: Sequence[ImageRecord], captions: Mapping[str, Sequence[Caption]]) -> None:
        """Update the captions inside pictures' own files (image id -> captions) whose headers were read again."""
        known = self.catalog.captions(captions)
        changed: dict[str, list[CaptionRecord]] = {}
        for image_id, inside in captions.items():
            before = {(record.source, record.text) for record in known.get(image_id, ()) if record.source in EMBEDDED_SOURCES}
            if before != {(caption.source.value, caption.text) for caption in inside}:
                changed[image_id] = [CaptionRecord(image_id, caption.source.value, caption.text) for caption in inside]
        self._write({image.image_id: image for image in images}, changed, EMBEDDED_SOURCES)

    def fill_facts(self) -> None:
        """Give embedded pictures the dates and places from the files beside them, where their own files have none.

        A date in the name of a file counts less than one beside it.
        """
        waiting = iter(self._facts)
        while ids := list(islice(waiting, _BATCH)):
            images = [image for image in self.catalog.images(ids).values() if image.state is ImageState.ACTIVE]
            filled = [(image, _with_beside(image, self._facts[image.image_id])) for image in images]
            self.catalog.set_photo_facts([after for before, after in filled if before != after])

    def apply(self, table: CaptionTable, images: Iterable[ImageRecord]) -> None:
        """Set the captions that the table has for these pictures; the others keep those of earlier tables."""
        remaining = iter(images)
        while batch := list(islice(remaining, _BATCH)):
            by_image = {image.image_id: table.for_uri(image.uri) for image in batch}
            matched = {image_id: captions for image_id, captions in by_image.items() if captions}
            self._set({image.image_id: image for image in batch if image.image_id in matched}, matched, CaptionSource.TABLE)

    def _set(
        self, images: dict[str, ImageRecord], captions_by_image: dict[str, tuple[Caption, ...]], source: CaptionSource
    ) -> None:
        known = self.catalog.captions(images)
        changed: dict[str, list[CaptionRecord]] = {}
        for image_id, captions in captions_by_image.items():
            before = [record.text for record in known.get(image_id, ()) if record.source == source.value]
            after = [caption.text for caption in captions]
            if before != after:
                changed[image_id] = [CaptionRecord(image_id, source.value, text) for text in after]
        self._write(images, changed, [source.value])

    def _write(
        self, images: Mapping[str, ImageRecord], changed: Mapping[str, Sequence[CaptionRecord]], sources: Sequence[str]
    ) -> None:
        if not changed:
            return
        # Receipts first: after a crash in between, the next run finds the same difference again.
        for slice_id in {images[image_id].slice_id for image_id in changed} - {None}:
            self.catalog.forget_receipts(str(slice_id), [self.part])
        self.catalog.set_captions(changed, sources=sources)
        self.changed += len(changed)

    def _beside(self, file: FoundFile, root_id: str) -> Beside:
        if file.captions is not None:
            return Beside(tuple(Caption(text, CaptionSource.SIDECAR) for text in file.captions))
        if root_id not in self._enclosures:
            self._enclosures[root_id] = enclosure_of(self.catalog.root(root_id), self.boundaries)
        return self.sidecars.read(file.locator, self._enclosures[root_id])


def _with_beside(image: ImageRecord, beside: Beside) -> ImageRecord:
    date, place = beside.date, beside.place
    if place is not None and image.latitude is None:
        image = replace(image, latitude=place[0], longitude=place[1])
    if date is None or not (image.taken_at is None or image.taken_source in _WEAKER):
        return image
    return replace(
        image,
        taken_at=date.taken_at,
        taken_subsec_ms=date.milliseconds,
        utc_offset_minutes=date.offset_minutes,
        taken_precision=date.precision,
        taken_source=date.source,
        taken_zone=date.zone,
    )
