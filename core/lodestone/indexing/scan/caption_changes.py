"""Comparison of sidecar and table captions with the catalog, without reading a pixel.

When the captions of an embedded picture changed, its slice's captions part is declared unfinished: only the texts are encoded
again. (Captions inside a picture's own file change with its content, so they are read when its pixels are.)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import CaptionRecord, ImageRecord
from lodestone.files.beneath import Boundaries, Enclosure
from lodestone.sources.base import FoundFile
from lodestone.sources.boundaries import enclosure_of
from lodestone.sources.captions import Caption, CaptionSource, CaptionTable, read_sidecars

_BATCH: Final = 1000
_SIDECAR_SUFFIX: Final = ".txt"


@dataclass(slots=True)
class Recaptioner:
    """Updates the catalog's sidecar and table captions.

    Attributes:
        catalog: Read and written.
        part: Name of the captions part.
        boundaries: What may be opened of the roots.
        changed: Number of pictures whose captions this run changed.
    """

    catalog: Catalog
    part: str
    boundaries: Boundaries = field(default_factory=Boundaries)
    changed: int = 0
    _folders: dict[str, bool] = field(default_factory=dict)
    _enclosures: dict[str, Enclosure | None] = field(default_factory=dict)  # by root

    def compare(self, files: Sequence[tuple[ImageRecord, FoundFile]]) -> None:
        """Compare a batch of files with their sidecars, and update the catalog."""
        captions = {image.image_id: self._beside(file, image.root_id) for image, file in files}
        self._set({image.image_id: image for image, _ in files}, captions, CaptionSource.SIDECAR)

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
        if not changed:
            return
        # Receipts first: after a crash in between, the next run finds the same difference again.
        for slice_id in {images[image_id].slice_id for image_id in changed} - {None}:
            self.catalog.forget_receipts(str(slice_id), [self.part])
        self.catalog.set_captions(changed, sources=[source.value])
        self.changed += len(changed)

    def _beside(self, file: FoundFile, root_id: str) -> tuple[Caption, ...]:
        if file.captions is not None:
            return tuple(Caption(text, CaptionSource.SIDECAR) for text in file.captions)
        if not self._has_texts(os.path.dirname(file.locator)):  # noqa: PTH120
            return ()
        if root_id not in self._enclosures:
            self._enclosures[root_id] = enclosure_of(self.catalog.root(root_id), self.boundaries)
        return read_sidecars(file.locator, self._enclosures[root_id])

    def _has_texts(self, folder: str) -> bool:
        """Return whether the folder holds any text file.

        Most hold none, and a listing is cheaper than two lookups per picture.
        """
        if folder not in self._folders:
            self._folders.clear()  # files come folder by folder: one entry is enough
            try:
                with os.scandir(folder) as listing:
                    self._folders[folder] = any(entry.name.endswith(_SIDECAR_SUFFIX) for entry in listing)
            except OSError:
                self._folders[folder] = True  # cannot be listed: ask for each file
        return self._folders[folder]
