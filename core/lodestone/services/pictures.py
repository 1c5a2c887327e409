"""Pictures: their facts, thumbnails and files, found by id in the catalog; nothing in a request names a file.

Only bytes are sent that decoding has accepted: those of an embedded picture, opened below its allowed folder and compared with
the hash of what was decoded. An id must not become a way to read whatever has been put in a picture's place since. So a picture
that waits to be embedded, or to be embedded anew, sends nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lodestone.access.caller import Caller
from lodestone.catalog.pictures.dated import DatedPlace, PictureFilter, local_seconds
from lodestone.catalog.pictures.taken import taken_local
from lodestone.catalog.records import SHOWN, CaptionRecord, ImageRecord, ImageState, Root
from lodestone.errors import InvalidRequestError, NotFoundError, PictureNotReadyError
from lodestone.gazetteer.places import known_place
from lodestone.paging import PageRequest, decode_cursor, encode_cursor
from lodestone.services.limits import need_whole_home, within
from lodestone.sources.boundaries import boundaries_of, enclosure_of
from lodestone.sources.locators import shown_place
from lodestone.sources.originals import open_original
from lodestone.sources.reading import Reader
from lodestone.sources.verified import VerifiedFile
from lodestone.store.base import Between, Condition, Filter, HasId, MatchAny
from lodestone_schemas.api import BrowseRequest, Facets, FacetsRequest, ImageInfo, ImagePage, PathsRequest, PicturePaths

if TYPE_CHECKING:
    from lodestone.services.sessions.session import HomeSession

_CORPORA_AT_ONCE = 500
_LOOKED_AT = 1_000  # pictures by date whose fields of parts are looked up at once
_LOOKS = 20
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
    "JP2": "image/jp2",
}
_UNKNOWN_TYPE = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class PictureFile:
    """The bytes of a file, or the open file when it is large; who asked for it closes it. `etag` changes with the bytes."""

    source: bytes | VerifiedFile
    media_type: str
    etag: str


def whole_content(file: PictureFile) -> bytes:
    """Return all bytes of a picture's file, and close it.

    Raises:
        ImageError: the file has been written to since it was opened.
    """
    return file.source if isinstance(file.source, bytes) else b"".join(file.source.parts())


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

    async def remove(self, image_id: str, caller: Caller) -> None:
        """Remove everything that is kept of a picture. Its file is not touched; in an indexed folder it is found again.

        Raises:
            NotFoundError: the picture is unknown or not seen.
            StoreLockedError: its corpus is being indexed.
        """
        from lodestone.indexing.run.removal import remove_pictures

        await asyncio.to_thread(self._find, image_id, caller)
        async with self._session.changing:
            await asyncio.to_thread(remove_pictures, self._session.runtime, [image_id])
            await self._session.load()

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
        images = catalog.image_page(list(roots), limit + 1, after=after, states=SHOWN)
        shown, more = images[:limit], len(images) > limit
        captions = catalog.captions([image.image_id for image in shown])
        return ImagePage(
            images=[_info(image, roots[image.root_id], corpus, captions.get(image.image_id, [])) for image in shown],
            next_cursor=encode_cursor("images", shown[-1].root_id, shown[-1].uri) if more else None,
        )

    def browse(self, request: BrowseRequest, caller: Caller) -> ImagePage:
        """Return one page of the pictures that pass filters: newest first, those without a date last.

        Pictures of disabled directories are left out, as searches leave them out.

        Raises:
            UnknownNameError: a corpus or root is unknown or not seen, or no part has such a field.
            InvalidRequestError: no such cursor; or the filters contradict each other.
        """
        from lodestone.query.asking.filters import FilterSources, restriction

        catalog = self._session.runtime.catalog
        without_fields = request.filters.model_copy(update={"where": {}})
        which = picture_filter(restriction(without_fields, FilterSources(catalog, caller.visibility))[0])
        after = None if request.cursor is None else _dated_place(request.cursor)
        if request.filters.where:
            shown, last = self._with_fields(request, which, after)
        else:
            images = catalog.dated_page(which, request.limit + 1, after=after, states=SHOWN)
            shown = images[: request.limit]
            last = shown[-1] if len(images) > request.limit else None
        roots = {root.root_id: root for root in catalog.roots(None)}
        names = {corpus_id: self._corpus_name(corpus_id) for corpus_id in {image.corpus_id for image in shown}}
        captions = catalog.captions([image.image_id for image in shown])
        return ImagePage(
            images=[
                _info(image, roots[image.root_id], names[image.corpus_id], captions.get(image.image_id, []))
                for image in shown
                if image.root_id in roots
            ],
            next_cursor=None if last is None else _dated_cursor(last),
        )

    def facets(self, request: FacetsRequest, caller: Caller) -> Facets:
        """Return the values of one kind of facts among the pictures that pass filters, the commonest first.

        Raises:
            UnknownNameError: there is no such kind; a corpus or root is unknown or not seen, or no part has such a field.
            InvalidRequestError: the filters contradict each other.
        """
        from lodestone.indexing.parts.registry import further_fields
        from lodestone.query.asking.filters import FilterSources, restriction
        from lodestone.services.facets import facets_of

        runtime = self._session.runtime
        sources = FilterSources(runtime.catalog, caller.visibility, dict(further_fields()))
        filter_ = restriction(request.filters, sources)[0]
        return facets_of(request.of, filter_, runtime.catalog, runtime.store, self._collection(), most=request.limit)

    def _collection(self) -> str | None:
        """Return a collection with one point for each picture; None where nothing was loaded yet."""
        runtime = self._session.runtime
        return next((name for alias, name in runtime.store.aliases().items() if alias in runtime.profile.spaces), None)

    def _with_fields(
        self, request: BrowseRequest, which: PictureFilter, after: DatedPlace | None
    ) -> tuple[list[ImageRecord], ImageRecord | None]:
        """Return a page of the pictures that have values in fields of parts, which the vector store knows, and its end.

        The end is the last picture that was looked at; None where there are no more. A page of few pictures among many is
        shorter than was asked for, so that its time has a bound.
        """
        from lodestone.indexing.parts.registry import further_fields
        from lodestone.query.asking.part_fields import part_conditions

        runtime = self._session.runtime
        conditions = part_conditions(request.filters.where, dict(further_fields()))
        collection = self._collection()
        if collection is None:
            return [], None
        shown: list[ImageRecord] = []
        for _ in range(_LOOKS):
            images = runtime.catalog.dated_page(which, _LOOKED_AT, after=after, states=SHOWN)
            among = HasId(tuple(image.image_id for image in images))
            points = runtime.store.scroll(collection, Filter(must=(among, *conditions))) if images else ()
            having = {image_id for batch in points for image_id in batch.ids}
            for image in images:
                if image.image_id in having:
                    if len(shown) == request.limit:
                        return shown, shown[-1]
                    shown.append(image)
            if len(images) < _LOOKED_AT:
                return shown, None
            after = DatedPlace(local_seconds(images[-1]), images[-1].image_id)
        return shown, images[-1]

    def content(self, image_id: str, caller: Caller) -> PictureFile:
        """Return the picture's own file.

        Raises:
            NotFoundError: the picture is unknown or not seen; or it is gone, has changed or lies outside its folder.
            PictureNotReadyError: the picture is not embedded yet.
            ImageTooLargeError: the file is too large to be sent.
        """
        image, root = self._find_embedded(image_id, caller)
        return PictureFile(self._original(image, root), _MEDIA_TYPES.get(image.format, _UNKNOWN_TYPE), image.hash)

    def thumbnail(self, image_id: str, caller: Caller) -> PictureFile:
        """Return the picture's thumbnail, made from its file if it is missing or damaged. Raises as `content`.

        Raises:
            ImageError: there is no good thumbnail, and none can be made.
        """
        from lodestone.imaging.thumbnails import MEDIA_TYPE

        image, root = self._find_embedded(image_id, caller)
        settings = self._session.runtime.settings.index
        thumbnails = self._session.runtime.thumbnails
        data = thumbnails.good(image.hash)
        if data is None:
            original = self._original(image, root)
            source = original if isinstance(original, bytes) else original.file()
            picture = self._session.runtime.decode(source, min_side=settings.thumbnail_px)
            data = thumbnails.replace(image.hash, picture)
        return PictureFile(data, MEDIA_TYPE, f"{image.hash}-thumbnail")

    def paths(self, request: PathsRequest, caller: Caller) -> PicturePaths:
        """Return the paths, or URLs, of pictures. Those that are unknown, or whose names are no text, are left out.

        Raises:
            ForbiddenError: the caller does not see the whole home.
        """
        need_whole_home(caller, "the paths of files")
        catalog = self._session.runtime.catalog
        images = catalog.images(dict.fromkeys(request.image_ids))
        roots = {root.root_id: root for root in catalog.roots(None)}
        places = {
            image_id: shown_place(roots[image.root_id], image)
            for image_id, image in images.items()
            if image.state in SHOWN and image.root_id in roots
        }
        return PicturePaths(paths={image_id: place for image_id, place in places.items() if _is_text(place)})

    def _find(self, image_id: str, caller: Caller) -> tuple[ImageRecord, Root]:
        catalog = self._session.runtime.catalog
        image = catalog.images([image_id]).get(image_id)
        if image is None or image.state not in SHOWN or not self._is_seen(image, caller):
            raise NotFoundError(f"no indexed picture has the id {image_id!r}", hint="take an id from a search")
        return image, catalog.root(image.root_id)

    def _find_embedded(self, image_id: str, caller: Caller) -> tuple[ImageRecord, Root]:
        image, root = self._find(image_id, caller)
        if image.state is not ImageState.ACTIVE:
            raise PictureNotReadyError(
                f"the picture {image_id!r} is not embedded yet, and is sent only then",
                hint="ask again when it is indexed: `lodestone directory jobs`; else run `lodestone index` for its folder",
                image_id=image_id,
            )
        return image, root

    def _is_seen(self, image: ImageRecord, caller: Caller) -> bool:
        seen = caller.visibility.corpora
        return seen is None or image.corpus_id in self._session.runtime.catalog.corpus_ids(seen).values()

    def _original(self, image: ImageRecord, root: Root) -> bytes | VerifiedFile:
        within = enclosure_of(root, boundaries_of(self._session.runtime.settings))
        return open_original(root, image, self._reader, within)

    def _corpus_name(self, corpus_id: str) -> str:
        offset = 0
        while page := self._session.runtime.catalog.corpora(offset, _CORPORA_AT_ONCE):
            for corpus in page:
                if corpus.corpus_id == corpus_id:
                    return corpus.name
            offset += len(page)
        raise NotFoundError(f"the corpus {corpus_id!r} is being removed", hint="search again")


def _is_text(place: str) -> bool:
    """Return whether a path can be sent: on POSIX, names of files are bytes, which Python spells with surrogates."""
    return not any("\ud800" <= char <= "\udfff" for char in place)


def _info(image: ImageRecord, root: Root, corpus: str, captions: Sequence[CaptionRecord]) -> ImageInfo:
    place = known_place(image.latitude, image.longitude)
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
        taken_local=taken_local(image.taken_at, image.utc_offset_minutes, image.taken_precision),
        taken_source=image.taken_source,
        taken_zone=image.taken_zone,
        latitude=image.latitude,
        longitude=image.longitude,
        place=None if place is None else ", ".join(place.names),
        camera_make=image.camera_make,
        camera_model=image.camera_model,
        decoded_share=image.decoded_share,
        captions=[caption.text for caption in captions],
        thumbnail=f"/v1/images/{image.image_id}/thumbnail",
    )


def _dated_cursor(last: ImageRecord) -> str:
    local = local_seconds(last)
    return encode_cursor("browse", last.image_id) if local is None else encode_cursor("browse by date", local, last.image_id)


def _dated_place(cursor: str) -> DatedPlace:
    """Return the place of a cursor: the last picture had a date, or had none."""
    try:
        local, image_id = decode_cursor("browse by date", cursor, int, str)
    except InvalidRequestError:
        (image_id,) = decode_cursor("browse", cursor, str)
        local = None
    return DatedPlace(local, image_id)


_KEYWORDS: Final = {"corpus": "corpora", "root": "roots", "folders": "folders"}
_CLOCKS: Final = {"taken_at": "local", "taken_utc": "utc"}


def picture_filter(which: Filter | None) -> PictureFilter:
    """Return the catalog's filter for one of the store.

    Raises:
        InvalidRequestError: A condition is one that only the vector store knows.
    """
    if which is None:
        return PictureFilter()
    members: dict[str, object] = {}
    for condition in which.must:
        if isinstance(condition, MatchAny) and condition.field in _KEYWORDS:
            name = _KEYWORDS[condition.field]
            values = [str(value) for value in condition.values]
            earlier = members.get(name)
            members[name] = [value for value in values if value in earlier] if isinstance(earlier, list) else values
        elif isinstance(condition, Between) and condition.field in _CLOCKS:
            clock = _CLOCKS[condition.field]
            members |= {f"{clock}_from": condition.gte, f"{clock}_to": condition.lt}
        else:
            raise _unknown(condition)
    left_out: list[str] = []
    for condition in which.must_not:
        if isinstance(condition, MatchAny) and condition.field == "root":
            left_out += map(str, condition.values)
        elif isinstance(condition, Between) and condition.field == "taken_until" and condition.gte is not None:
            members["period_to"] = condition.gte - 1  # a period ends at whole seconds
        else:
            raise _unknown(condition)
    return PictureFilter(without_roots=left_out, **members)  # type: ignore[arg-type]


def _unknown(condition: Condition) -> InvalidRequestError:
    return InvalidRequestError(f"pictures cannot be listed by {condition!r}", hint="search by words with this filter")
