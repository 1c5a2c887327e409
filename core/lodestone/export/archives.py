"""WebDataset archives of an export: tar files in which each picture is a few members of the same name, its id.

Tar headers hold no time and no owner, so the same pictures give the same bytes.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Final

import numpy as np

from lodestone.errors import ImageError, LodestoneError, NotFoundError, SourceError, ThumbnailsDamagedError
from lodestone.export.columns import facts_of
from lodestone.export.request import PictureBytes
from lodestone.export.tasks import ExportedPicture, ExportedSlice, ExportTask, LeftOut, RootAccess
from lodestone.export.writer import FileContent, FileLayout, FileWriter
from lodestone.files.urls import is_url
from lodestone.imaging.thumbnails import ThumbnailStore
from lodestone.sources.locators import base_of
from lodestone.sources.originals import open_original
from lodestone.sources.reading import Reader
from lodestone.sources.uris import name_of

_AHEAD: Final = 8  # pictures that are read before they are written: a bucket takes its time for each
_EXTENSIONS: Final = {
    "JPEG": "jpg",
    "PNG": "png",
    "WEBP": "webp",
    "GIF": "gif",
    "BMP": "bmp",
    "TIFF": "tiff",
    "HEIF": "heic",
    "AVIF": "avif",
    "JP2": "jp2",
    "PSD": "psd",
    "TGA": "tga",
    "PNM": "pnm",
}


class ArchiveWriter(FileWriter):
    """Writes a task as one tar file.

    Args:
        layout: What the files hold.
    """

    def __init__(self, layout: FileLayout) -> None:
        super().__init__(layout)
        self._reader = Reader()

    def write(self, task: ExportTask, file: BinaryIO) -> FileContent:
        """Write the pictures of a task; those that cannot be read are left out.

        Raises:
            SourceError: the folder or bucket of a picture cannot be reached at all.
            EmbeddingsDamagedError: a file of the embeddings is missing or damaged.
            OSError: the file cannot be written.
        """
        left_out: list[LeftOut] = []
        without = dict.fromkeys(self.layout.content.projections, 0)
        with (
            ThreadPoolExecutor(_AHEAD, thread_name_prefix="export-read") as pool,
            tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT) as archive,
        ):
            for one in task.slices:
                vectors = self.layout.content.vectors(one)
                facts = facts_of(task, one, self.layout.columns, self.layout.content.fields(one))
                contents = _in_order(pool, self._content_of(task, one), one.pictures)
                for place, (picture, content) in enumerate(zip(one.pictures, contents, strict=True)):
                    if isinstance(content, LeftOut):
                        left_out.append(content)
                        continue
                    present = {space: found.rows[place] for space, found in vectors.items() if found.present[place]}
                    for space in vectors.keys() - present.keys():
                        without[space] += 1
                    row = {name: values[place] for name, values in facts.items()}
                    for name, data in self._members(picture, content, row, present):
                        member = tarfile.TarInfo(name)
                        member.size = len(data)
                        archive.addfile(member, io.BytesIO(data))
        return FileContent(
            task.pictures - len(left_out), {space: count for space, count in without.items() if count}, tuple(left_out)
        )

    def _members(
        self, picture: ExportedPicture, content: bytes, facts: Mapping[str, Any], vectors: Mapping[str, np.ndarray[Any, Any]]
    ) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of each member of a picture."""
        key = picture.image.image_id
        if self.layout.pictures is not PictureBytes.NONE:
            yield f"{key}.{self._extension(picture)}", content
        yield f"{key}.json", json.dumps(facts, ensure_ascii=False).encode()
        if picture.captions:
            yield f"{key}.txt", "\n".join(" ".join(text.splitlines()) for _, text in picture.captions).encode()
        for space, vector in vectors.items():
            numbers = io.BytesIO()
            np.save(numbers, vector)
            yield f"{key}.{space.replace('.', '_')}.npy", numbers.getvalue()

    def _extension(self, picture: ExportedPicture) -> str:
        """Return the extension of a picture's member: that of its format, which its name may not tell."""
        if self.layout.pictures is PictureBytes.THUMBNAILS:
            return "jpg"
        known = _EXTENSIONS.get(picture.image.format)
        return known or PurePosixPath(name_of(picture.image.uri)).suffix.lower().lstrip(".") or "bin"

    def _content_of(self, task: ExportTask, one: ExportedSlice) -> Callable[[ExportedPicture], bytes | LeftOut]:
        """Return what reads the pictures of a slice, or says why one is left out."""
        if self.layout.pictures is PictureBytes.NONE:
            return lambda _: b""
        if self.layout.pictures is PictureBytes.ORIGINALS:
            return lambda picture: self._original(task.roots[picture.image.root_id], picture)
        pack = [(one.corpus_id, one.fingerprint)]
        thumbnails = ThumbnailStore(self.layout.thumbnails, size=self.layout.thumbnail_px, locate=lambda _: pack)
        return lambda picture: _thumbnail(thumbnails, picture)

    def _original(self, access: RootAccess, picture: ExportedPicture) -> bytes | LeftOut:
        try:
            source = open_original(access.root, picture.image, self._reader, access.within)
            return source if isinstance(source, bytes) else b"".join(source.parts())
        except (NotFoundError, ImageError) as error:
            _require_place(access)
            return _left_out(picture, error)


def _thumbnail(thumbnails: ThumbnailStore, picture: ExportedPicture) -> bytes | LeftOut:
    data = thumbnails.good(picture.image.hash)
    if data is None:
        return _left_out(picture, ThumbnailsDamagedError("its thumbnail is missing or damaged"))
    return data


def _require_place(access: RootAccess) -> None:
    """Return if the folder of a root can be reached, and has something in it.

    Raises:
        SourceError: it cannot, or is empty, as that of a disk that is away.
    """
    base = base_of(access.root)
    if is_url(base):
        return
    try:
        with os.scandir(base) as entries:
            is_there = any(entries)
    except NotADirectoryError:  # a root may be a single archive
        is_there = True
    except OSError:
        is_there = False
    if not is_there:
        raise SourceError(
            f"the folder {base!r} of the directory {access.root.name!r} is missing or empty",
            hint="connect its disk and run the same command again; what was finished is kept",
            location=base,
        )


def _left_out(picture: ExportedPicture, error: LodestoneError) -> LeftOut:
    return LeftOut(picture.image.image_id, picture.image.uri, error.code, error.message)


def _in_order(
    pool: ThreadPoolExecutor, read: Callable[[ExportedPicture], bytes | LeftOut], pictures: Sequence[ExportedPicture]
) -> Iterator[bytes | LeftOut]:
    """Yield what is read of each picture, in their order, and read the next ones meanwhile."""
    reading: deque[Future[bytes | LeftOut]] = deque()
    remaining = iter(pictures)
    try:
        for picture in remaining:
            reading.append(pool.submit(read, picture))
            if len(reading) >= _AHEAD:
                yield reading.popleft().result()
        while reading:
            yield reading.popleft().result()
    finally:
        for future in reading:
            future.cancel()
