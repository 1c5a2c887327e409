"""Reading of metadata that the catalog lacks: pictures that an older version recorded are read again, by their headers alone.

No pixel is decoded and no model is run. Points of pictures whose time changes are written again from their stored vectors.
Each batch is written to the catalog before the next is read, so a killed run goes on where it stopped, and a picture is read
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from operator import attrgetter
from typing import BinaryIO, Final

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import ImageRecord, Root
from lodestone.errors import ImageError, LodestoneError, ManifestChangedError, SourceError
from lodestone.files.beneath import Boundaries
from lodestone.imaging.exif import EmbeddedMetadata
from lodestone.imaging.failures import FailureReason, image_error
from lodestone.imaging.headers import BEGINNING_BYTES, is_enough, read_header
from lodestone.imaging.metadata import METADATA_VERSION, read_metadata
from lodestone.indexing.scan.caption_changes import Recaptioner
from lodestone.indexing.scan.scope import ScanScope
from lodestone.sources.boundaries import enclosure_of
from lodestone.sources.captions import Caption, embedded_captions
from lodestone.sources.locators import FOLDER, locator_of_image
from lodestone.sources.reading import Reader
from lodestone.sources.trouble import Trouble
from lodestone.sources.uris import name_of

_BATCH: Final = 512  # pictures that are read and written at a time
_LOCAL_THREADS: Final = 4
_REMOTE_THREADS: Final = 16
_MOST_WHOLE_BYTES: Final = 16 << 20  # larger pictures in object stores and archives are not read for their metadata alone


@dataclass(frozen=True, slots=True)
class _Filled:
    """A picture's row with what its header says, and the captions inside its file."""

    record: ImageRecord
    captions: tuple[Caption, ...] = ()


@dataclass(slots=True)
class MissingMetadata:
    """Fills the metadata of pictures that were recorded before it was kept.

    Attributes:
        catalog: Read and written.
        reader: Reads the pictures.
        recaptioner: Takes the captions inside the pictures.
        boundaries: What may be opened of the roots.
        read: Number of pictures whose headers were read.
        unreadable: Number of pictures whose headers could not be read: they stay as they are until their files change.
        problems: Errors of sources that refused every read; their pictures are tried again by the next run.
    """

    catalog: Catalog
    reader: Reader
    recaptioner: Recaptioner
    boundaries: Boundaries = field(default_factory=Boundaries)
    read: int = 0
    unreadable: int = 0
    problems: list[LodestoneError] = field(default_factory=list)

    def fill(self, scopes: Iterable[ScanScope], step: Callable[[], object]) -> None:
        """Read the headers of the pictures of some scopes that lack metadata.

        Args:
            scopes: Parts of roots whose files were compared with the catalog already. Single files are left out: they are read
                with the folder around them.
            step: Called after each batch.
        """
        usable = [scope for scope in scopes if not scope.is_file and not scope.vanished]
        by_root = groupby(sorted(usable, key=_root_id), key=_root_id)
        for _, group in by_root:
            same_root = list(group)
            try:
                self._fill_root(same_root, step)
            except (SourceError, ManifestChangedError) as error:
                self.problems.append(error)

    def _fill_root(self, scopes: Sequence[ScanScope], step: Callable[[], object]) -> None:
        root = scopes[0].root
        unread = (
            image
            for image in self.catalog.images_with_unread_metadata(root.root_id)
            if any(scope.covers(image.uri) for scope in scopes)
        )
        with ThreadPoolExecutor(_LOCAL_THREADS if root.kind == FOLDER else _REMOTE_THREADS, "read-metadata") as pool:
            while batch := list(islice(unread, _BATCH)):
                filled: list[_Filled] = []
                try:
                    for one in pool.map(lambda image: self._filled(root, image), batch):
                        filled += [one] if one is not None else []
                finally:  # a source may refuse the rest
                    self._write(filled)
                step()

    def _write(self, filled: Sequence[_Filled]) -> None:
        records = [one.record for one in filled]
        # A beginning without captions may belong to a file that has them behind its pixels: what is known of it stays. Facts
        # come last: after a crash in between, the next run reads the headers again.
        captions = {one.record.image_id: one.captions for one in filled if one.captions}
        self.recaptioner.read_again(records, captions)
        self.catalog.set_photo_facts(records)
        read = sum(record.metadata_version > 0 for record in records)
        self.read += read
        self.unreadable += len(records) - read

    def _filled(self, root: Root, image: ImageRecord) -> _Filled | None:
        """Return the picture's row and captions by its header; None if it cannot be reached: the next run tries again."""
        try:
            source = self._beginning(root, image, BEGINNING_BYTES)
        except ImageError as error:
            return _Filled(_unreadable(image)) if error.details.get("reason") == Trouble.DENIED.value else None
        try:
            header = self._header(root, image, source)
        except ImageError:
            return _Filled(_unreadable(image))
        return _Filled(_with_facts(image, header), embedded_captions(header))

    def _header(self, root: Root, image: ImageRecord, source: bytes | BinaryIO) -> EmbeddedMetadata:
        if not isinstance(source, bytes) or len(source) >= image.size:
            return read_header(source)
        with suppress(ImageError):  # some headers are longer, or refer to the file's end
            if is_enough(source):
                return read_header(source)
        if image.size > _MOST_WHOLE_BYTES:
            raise image_error(FailureReason.TOO_LARGE, f"{image.size >> 20} MB are not read for the header alone")
        return read_header(self._beginning(root, image, image.size))

    def _beginning(self, root: Root, image: ImageRecord, most: int) -> bytes | BinaryIO:
        return self.reader.read_beginning(
            locator_of_image(root, image),
            content=image.hash,
            size=image.size,
            mtime_ns=image.mtime_ns,
            most=most,
            within=enclosure_of(root, self.boundaries),
        )


_root_id = attrgetter("root.root_id")


def _with_facts(image: ImageRecord, header: EmbeddedMetadata) -> ImageRecord:
    """Return the row with a header's facts.

    The place stays where the header says nothing about it: a PNG in a bucket may have it behind its pixels.
    """
    about = read_metadata(header, name=name_of(image.uri))
    return replace(
        image,
        latitude=about.latitude if header.gps else image.latitude,
        longitude=about.longitude if header.gps else image.longitude,
        taken_at=about.taken_at,
        utc_offset_minutes=about.utc_offset_minutes,
        taken_subsec_ms=about.taken_subsec_ms,
        taken_precision=about.taken_precision,
        taken_source=about.taken_source,
        taken_zone=about.taken_zone,
        camera_make=about.camera_make,
        camera_model=about.camera_model,
        metadata_version=METADATA_VERSION,
    )


def _unreadable(image: ImageRecord) -> ImageRecord:
    return replace(image, metadata_version=-METADATA_VERSION)
