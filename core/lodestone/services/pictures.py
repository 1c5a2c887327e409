"""Pictures: their facts, thumbnails and files, found by id in the catalog; nothing in a request names a file.

A file is sent only while it is what was indexed (same size and modification time): an id must not become a way to read
whatever has been put in a picture's place since.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lodestone.access.caller import Caller
from lodestone.catalog.records import CaptionRecord, ImageRecord, ImageState, Root
from lodestone.errors import NotFoundError
from lodestone.paging import PageRequest, decode_cursor, encode_cursor
from lodestone.services.limits import within
from lodestone.sources.locators import FOLDER
from lodestone.sources.originals import open_original
from lodestone.sources.reading import Reader
from lodestone_schemas.api import ImageInfo, ImagePage

if TYPE_CHECKING:
    from lodestone.services.sessions.session import HomeSession

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


@dataclass(frozen=True, slots=True)
class PictureFile:
    """A file that may be sent as it is, or its bytes. `etag` changes whenever they do."""

    source: Path | bytes
    media_type: str
    etag: str


class PictureUseCases:
    """Looks up the pictures of one home. Those of corpora that the caller does not see are unknown to them."""

    def __init__(self, session: HomeSession) -> None:
        self._session = session
        self._reader = Reader()

    def image(self, image_id: str, caller: Caller) -> ImageInfo:
        """Return what is known about a picture.

        Raises:
            NotFoundError: the picture is unknown or not seen.
        """
        image, root = self._find(image_id, caller)
        captions = self._session.runtime.catalog.captions([image_id]).get(image_id, [])
        return _info(image, root, self._corpus_name(image.corpus_id), captions)

    def page(self, corpus: str, page: PageRequest, caller: Caller) -> ImagePage:
        """Return one page of a corpus's pictures, by root and path; the offset of `page` is not used.

        Raises:
            UnknownNameError: the corpus is unknown or not seen; lists those that are seen.
            InvalidRequestError: no such cursor.
        """
        with within(caller, corpus):
            return self._page(corpus, page.limit, page.cursor)

    def _page(self, corpus: str, limit: int, cursor: str | None) -> ImagePage:
        catalog = self._session.runtime.catalog
        after = None if cursor is None else decode_cursor("images", cursor, str, str)
        roots = {root.root_id: root for root in catalog.roots(catalog.corpus(corpus).corpus_id)}
        images = catalog.image_page(list(roots), limit + 1, after=after, states=_SHOWN)
        shown, more = images[:limit], len(images) > limit
        captions = catalog.captions([image.image_id for image in shown])
        return ImagePage(
            images=[_info(image, roots[image.root_id], corpus, captions.get(image.image_id, [])) for image in shown],
            next_cursor=encode_cursor("images", shown[-1].root_id, shown[-1].uri) if more else None,
        )

    def content(self, image_id: str, caller: Caller) -> PictureFile:
        """Return the picture's own file.

        Raises:
            NotFoundError: the picture is unknown or not seen; or it is gone, has changed or lies outside its root.
        """
        image, root = self._find(image_id, caller)
        return PictureFile(self._original(image, root), _MEDIA_TYPES.get(image.format, _UNKNOWN_TYPE), image.hash)

    def thumbnail(self, image_id: str, caller: Caller) -> PictureFile:
        """Return the picture's thumbnail, made from its file if it is missing; raises as `content`."""
        from lodestone.imaging.thumbnails import MEDIA_TYPE

        image, root = self._find(image_id, caller)
        settings = self._session.runtime.settings.index
        thumbnails = self._session.runtime.thumbnails
        if not thumbnails.has(image.hash):
            from lodestone.imaging.decode import decode

            limit = settings.max_decoded_mb << 20
            picture = decode(self._original(image, root), min_side=settings.thumbnail_px, max_decoded_bytes=limit)
            thumbnails.ensure(image.hash, picture.image)
        file = thumbnails.file(image.hash)
        return PictureFile(thumbnails.read(image.hash) if file is None else file, MEDIA_TYPE, f"{image.hash}-thumbnail")

    def _find(self, image_id: str, caller: Caller) -> tuple[ImageRecord, Root]:
        catalog = self._session.runtime.catalog
        image = catalog.images([image_id]).get(image_id)
        if image is None or image.state not in _SHOWN or not self._is_seen(image, caller):
            raise NotFoundError(f"no indexed picture has the id {image_id!r}", hint="take an id from a search")
        return image, catalog.root(image.root_id)

    def _is_seen(self, image: ImageRecord, caller: Caller) -> bool:
        seen = caller.visibility.corpora
        return seen is None or image.corpus_id in self._session.runtime.catalog.corpus_ids(seen).values()

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
        return self._session.runtime.settings.index.follow_symlinks or path.resolve().is_relative_to(root.resolve())

    def _corpus_name(self, corpus_id: str) -> str:
        offset = 0
        while page := self._session.runtime.catalog.corpora(offset, _CORPORA_AT_ONCE):
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
        utc_offset_minutes=image.utc_offset_minutes,
        latitude=image.latitude,
        longitude=image.longitude,
        camera_make=image.camera_make,
        camera_model=image.camera_model,
        captions=[caption.text for caption in captions],
        thumbnail=f"/v1/images/{image.image_id}/thumbnail",
    )
