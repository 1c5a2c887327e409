"""Automatic tagging of single pictures: uploaded ones, of which nothing is kept, and indexed ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lodestone.access.caller import Caller

if TYPE_CHECKING:
    from lodestone.query.contracts import Encoder, Tagger
    from lodestone.services.pictures import PictureUseCases
    from lodestone.services.sessions.session import HomeSession
    from lodestone_schemas.api import PictureTags


class TaggingUseCases:
    """Finds out what one picture shows, how good it is technically, and whether it is safe.

    Args:
        session: The opened home.
        pictures: Looks up indexed pictures.
    """

    def __init__(self, session: HomeSession, pictures: PictureUseCases) -> None:
        self._session = session
        self._pictures = pictures
        self._made: tuple[Encoder, Tagger] | None = None

    async def of_picture(self, picture: bytes, caller: Caller, *, deadline: float | None = None) -> PictureTags:  # noqa: ARG002
        """Return the labels, quality and safety score of a picture file's content. Nothing is kept, and every caller may ask.

        Raises:
            ImageError: it cannot be decoded within the bounds.
            DeadlineExceededError: the deadline, absolute, passed.
        """
        return await (await self._tagger()).tag(picture, deadline=deadline)

    async def of_image(self, image_id: str, caller: Caller, *, deadline: float | None = None) -> PictureTags:
        """Return the same of an indexed picture, read from its own file.

        Raises:
            NotFoundError: the picture is unknown or not seen; or its file is gone or has changed.
            PictureNotReadyError: the picture is not embedded yet.
            ImageTooLargeError: the file is too large to be read.
        """
        content = await asyncio.to_thread(self._content, image_id, caller)
        return await self.of_picture(content, caller, deadline=deadline)

    def _content(self, image_id: str, caller: Caller) -> bytes:
        source = self._pictures.content(image_id, caller).source
        return source if isinstance(source, bytes) else b"".join(source.parts())

    async def _tagger(self) -> Tagger:
        encoder = (await self._session.engine()).encoder
        if self._made is None or self._made[0] is not encoder:  # a swap has brought other versions
            self._made = (encoder, await asyncio.to_thread(self._session.runtime.tagger, encoder))
        return self._made[1]
