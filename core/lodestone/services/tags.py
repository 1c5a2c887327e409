"""Tags of pictures: listed, added by hand and removed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lodestone.access.caller import Caller
from lodestone.errors import NotFoundError
from lodestone.paging import PageRequest
from lodestone.services.limits import own, shown
from lodestone.services.redaction import redact_tags
from lodestone_schemas.api import TagList, TagPage, TagRequest, TagTexts

if TYPE_CHECKING:
    from lodestone.services.pictures import PictureUseCases
    from lodestone.services.sessions.session import HomeSession
    from lodestone_schemas.api import TagInfo


@dataclass(frozen=True, slots=True)
class TagFilters:
    """The tags to list; None stands for any."""

    corpus: str | None = None
    image_id: str | None = None
    text: str | None = None
    source: str | None = None


class TagUseCases:
    """Manages the tags of one home's pictures.

    Args:
        session: The opened home.
        pictures: Looks up pictures that are tagged.
    """

    def __init__(self, session: HomeSession, pictures: PictureUseCases) -> None:
        self._session = session
        self._pictures = pictures

    def page(self, filters: TagFilters, page: PageRequest, caller: Caller) -> TagPage:
        """Return one page of the tags of pictures that the caller sees, newest first.

        Raises:
            InvalidRequestError: no such source or cursor.
            UnknownNameError: the corpus is unknown or not seen.
        """
        visibility = caller.visibility
        if filters.corpus is not None and not visibility.sees(filters.corpus):
            raise visibility.unknown_corpus(filters.corpus, visibility.corpora or ())
        found = self._session.runtime.tags.list(
            corpus=filters.corpus,
            image_id=filters.image_id,
            text=filters.text,
            source=filters.source,
            offset=page.offset,
            limit=page.limit,
            cursor=page.cursor,
            corpora=visibility.corpora,
        )
        return shown(caller, found, lambda whole: whole.model_copy(update={"tags": redact_tags(whole.tags)}))

    def texts(self, source: str | None, limit: int, caller: Caller) -> TagTexts:
        """Return the texts of the tags of pictures that the caller sees, those of most pictures first.

        Raises:
            InvalidRequestError: no such source.
        """
        return self._session.runtime.tags.texts(source=source, corpora=caller.visibility.corpora, limit=limit)

    async def add(self, request: TagRequest, caller: Caller) -> TagList:
        """Tag pictures by hand; a tag that is there stays as it is.

        Raises:
            NotFoundError: a picture is unknown or not seen; nothing is tagged.
            InvalidRequestError: the text is blank, too long or without a word.
        """
        tags = await asyncio.to_thread(self._add, request, caller)
        await self._session.tags_changed()
        return shown(caller, TagList(tags=tags), lambda whole: TagList(tags=redact_tags(whole.tags)))

    async def remove(self, tag_id: str, caller: Caller) -> None:
        """Remove a tag.

        Raises:
            NotFoundError: the tag is unknown or not seen.
        """
        tags = self._session.runtime.tags
        if not await asyncio.to_thread(tags.remove, [tag_id], corpora=caller.visibility.corpora):
            raise NotFoundError(f"there is no tag {tag_id!r}", hint="lodestone tags list", tag_id=tag_id)
        await self._session.tags_changed()

    def _add(self, request: TagRequest, caller: Caller) -> list[TagInfo]:
        if caller.visibility.corpora is not None:
            for image_id in dict.fromkeys(request.image_ids):
                missing = NotFoundError(
                    f"no picture {image_id!r} is indexed", hint="take the id from a search result", image_id=image_id
                )
                own(caller, partial(self._pictures.image, image_id, caller), lambda image: image.corpus, missing)
        return self._session.runtime.tags.add(request.image_ids, request.text)
