"""Which file, and which facts, belong to a picture's id? Looked up in the catalog; nothing in a request names a file.

A file is sent only while it is what was indexed (same size and modification time): an id must not become a way to read
whatever has been put in a picture's place since.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone.catalog.records import CaptionRecord, ImageRecord, ImageState, Root
from lodestone.errors import NotFoundError
from lodestone.paging import decode_cursor, encode_cursor
from lodestone.sources.locators import FOLDER
from lodestone.sources.originals import open_original
from lodestone.sources.reading import Reader
from lodestone_schemas.api import CorpusPage, ImageInfo, ImagePage
from lodestone_serve.use_cases.services import ServedFile

if TYPE_CHECKING:
    from lodestone.home.runtime import Runtime

# A changed file is `pending` until it is embedded anew; searches show it meanwhile.
_SHOWN = frozenset({ImageState.ACTIVE, ImageState.PENDING})
_CORPORA_AT_ONCE = 500
_HINT = "run `lodestone index` again for its folder"
# What the decoder calls a format -> how it is served. Anything else (RAW) is bytes to save, not to show.
_MEDIA_TYPES = {
    "JPEG": "image/jpeg",
    "PNG": "image/png",
    "WEBP": "image/webp",
    "GIF": "image/gif",
    "BMP": "image/bmp",
    "TIFF": "image/tiff",
    "HEIF": "image/heif",
    "AVIF": "image/avif",
}
_UNKNOWN_TYPE = "application/octet-stream"


class Pictures:
    """Pictures of one opened home. Methods block and are thread-safe."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._reader = Reader()

    def info(self, image_id: str) -> ImageInfo:
        """What is known about a picture; `NotFoundError` for an unknown id."""
        image, root = self._find(image_id)
        captions = self._runtime.catalog.captions([image_id]).get(image_id, [])
        return _info(image, root, self._corpus_name(image.corpus_id), captions)

    def page(self, corpus: str, limit: int, *, cursor: str | None = None) -> ImagePage:
        """One page of a corpus's pictures, by root and path.

        Raises:
            UnknownNameError: no such corpus.
            InvalidRequestError: no such cursor.
        """
        catalog = self._runtime.catalog
        after = None if cursor is None else decode_cursor("images", cursor, str, str)
        found = catalog.corpus(corpus)
        roots = {root.root_id: root for root in catalog.roots(found.corpus_id)}
        images = catalog.image_page(list(roots), limit + 1, after=after, states=_SHOWN)
        shown, more = images[:limit], len(images) > limit
        captions = catalog.captions([image.image_id for image in shown])
        return ImagePage(
            images=[_info(image, roots[image.root_id], corpus, captions.get(image.image_id, [])) for image in shown],
            next_cursor=encode_cursor("images", shown[-1].root_id, shown[-1].uri) if more else None,
        )

    def content(self, image_id: str) -> ServedFile:
        """The picture's own file; `NotFoundError` when it is gone, has changed or lies outside its root."""
        image, root = self._find(image_id)
        return ServedFile(self._original(image, root), _MEDIA_TYPES.get(image.format, _UNKNOWN_TYPE), image.hash)

    def thumbnail(self, image_id: str) -> ServedFile:
        """The picture's thumbnail, made from its file if it is missing."""
        from lodestone.imaging.thumbnails import MEDIA_TYPE

        image, root = self._find(image_id)
        settings = self._runtime.settings.index
        thumbnails = self._runtime.thumbnails
        if not thumbnails.has(image.hash):
            from lodestone.imaging.decode import decode

            limit = settings.max_decoded_mb << 20
            picture = decode(self._original(image, root), min_side=settings.thumbnail_px, max_decoded_bytes=limit)
            thumbnails.ensure(image.hash, picture.image)
        file = thumbnails.file(image.hash)
        return ServedFile(thumbnails.read(image.hash) if file is None else file, MEDIA_TYPE, f"{image.hash}-thumbnail")

    def corpora(self, offset: int, limit: int, *, cursor: str | None = None, visibility: Visibility = EVERYTHING) -> CorpusPage:
        """One page of the corpora, by name; `InvalidRequestError` for a cursor that is none."""
        from lodestone.catalog.overview import corpus_overview

        catalog = self._runtime.catalog
        after = None if cursor is None else decode_cursor("corpora", cursor, str)[0]
        found = catalog.corpora(offset, limit + 1, after=after, names=visibility.corpora)
        page, more = [corpus_overview(catalog, corpus) for corpus in found[:limit]], len(found) > limit
        return CorpusPage(
            corpora=page,
            next_offset=offset + limit if more and cursor is None else None,
            next_cursor=encode_cursor("corpora", page[-1].name) if more else None,
        )

    def _find(self, image_id: str) -> tuple[ImageRecord, Root]:
        catalog = self._runtime.catalog
        image = catalog.images([image_id]).get(image_id)
        if image is None or image.state not in _SHOWN:
            raise NotFoundError(f"no indexed picture has the id {image_id!r}", hint="take an id from a search")
        return image, catalog.root(image.root_id)

    def _original(self, image: ImageRecord, root: Root) -> Path | bytes:
        return self._file_of(image, root) if root.kind == FOLDER else open_original(root, image, self._reader)

    def _file_of(self, image: ImageRecord, root: Root) -> Path:
        from lodestone.sources.uris import path_of

        path = path_of(Path(root.path), image.uri)
        if not self._is_inside(path, Path(root.path)):
            raise NotFoundError(f"the picture {image.image_id!r} lies outside its root", hint=_HINT)
        try:
            status = path.stat()
        except OSError as error:
            raise NotFoundError(
                f"the file of picture {image.image_id!r} cannot be read: {error.strerror}", hint=_HINT
            ) from error
        if (status.st_size, status.st_mtime_ns) != (image.size, image.mtime_ns):
            raise NotFoundError(f"the file of picture {image.image_id!r} has changed since it was indexed", hint=_HINT)
        return path

    def _is_inside(self, path: Path, root: Path) -> bool:
        # By spelling always. Links are resolved too unless indexing follows them: then they were followed on purpose.
        if not Path(os.path.normpath(path)).is_relative_to(os.path.normpath(root)):
            return False
        return self._runtime.settings.index.follow_symlinks or path.resolve().is_relative_to(root.resolve())

    def _corpus_name(self, corpus_id: str) -> str:
        offset = 0
        while page := self._runtime.catalog.corpora(offset, _CORPORA_AT_ONCE):
            for corpus in page:
                if corpus.corpus_id == corpus_id:
                    return corpus.name
            offset += len(page)
        raise NotFoundError(f"the corpus {corpus_id!r} is being removed", hint="search again")


def _info(image: ImageRecord, root: Root, corpus: str, captions: Sequence[CaptionRecord]) -> ImageInfo:
    return ImageInfo(
        image_id=image.image_id,
        corpus=corpus,
        root=root.name,
        uri=image.uri,
        hash=image.hash,
        size=image.size,
        width=image.width,
        height=image.height,
        format=image.format,
        taken_at=None if image.taken_at is None else datetime.fromtimestamp(image.taken_at, UTC),
        latitude=image.latitude,
        longitude=image.longitude,
        captions=[caption.text for caption in captions],
        thumbnail=f"/v1/images/{image.image_id}/thumbnail",
    )
