"""Operations on tags: add, remove, undo and list, on top of the catalog.

The catalog holds the tags. `delivery.deliver` brings the sparse collection, which searches use, up to date with it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone.paging import decode_cursor, encode_cursor
from lodestone.tags.terms import terms
from lodestone.text_encoders.text import normalise_query
from lodestone_schemas.api import TagInfo, TagPage, TagText, TagTexts
from lodestone_schemas.base import MAX_TAG_CHARS

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.records import TagRecord

USER: Final = "user"  # given by hand
IMPLICIT: Final = "implicit"  # left by a search that found the picture
FEEDBACK: Final = "feedback"  # left by a search whose answer a user confirmed
SOURCES: Final = (USER, IMPLICIT, FEEDBACK)
MAX_PAGE: Final = 1_000


class TagService:
    """Manages the tags of one home; its methods block and are thread-safe, as the catalog's are."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def add(self, image_ids: Sequence[str], text: str, *, source: str = USER) -> list[TagInfo]:
        """Tag pictures, and return the tags; a picture that already has this tag from this source keeps it.

        Args:
            image_ids: Pictures to tag.
            text: The tag; it is normalised first.
            source: One of `SOURCES`.

        Raises:
            InvalidRequestError: the text is blank, too long or without a word.
            NotFoundError: a picture is not in the catalog; nothing is tagged.
        """
        text, wanted = tag_text(text), list(dict.fromkeys(image_ids))
        images = self._catalog.images(wanted)
        for image_id in wanted:
            if image_id not in images:
                raise NotFoundError(
                    f"no picture {image_id!r} is indexed", hint="take the id from a search result", image_id=image_id
                )
        now = datetime.now(UTC)
        records = [new_tag(image_id, images[image_id].corpus_id, text, source=source, created_at=now) for image_id in wanted]
        return [info_of(tag) for tag in self._catalog.add_tags(records)]

    def remove(self, tag_ids: Sequence[str], *, corpora: Collection[str] | None = None) -> int:
        """Remove tags by id, and return how many were removed.

        Args:
            tag_ids: Tags to remove; unknown ids are ignored.
            corpora: Names of the corpora whose pictures' tags may be removed; None for all.
        """
        wanted = list(dict.fromkeys(tag_ids))
        if corpora is not None:
            visible = set(self._catalog.corpus_ids(corpora).values())
            tags = {tag_id: self._catalog.tag(tag_id) for tag_id in wanted}
            wanted = [tag_id for tag_id, tag in tags.items() if tag is not None and tag.corpus_id in visible]
        return self._catalog.remove_tags(wanted)

    def undo(self, *, since: datetime, source: str | None = None, corpus: str | None = None) -> int:
        """Remove every tag that was created at or after `since`, and return how many were removed.

        Args:
            since: Start of the period, with a time zone.
            source: Only tags of this source; None for all.
            corpus: Only pictures of the corpus with this name; None for all.

        Raises:
            InvalidRequestError: there is no such source, or `since` has no time zone.
            UnknownNameError: there is no such corpus.
        """
        if since.tzinfo is None:
            raise InvalidRequestError(f"the time {since} has no time zone", hint="write it like 2024-05-01T12:00:00Z")
        return self._catalog.undo_tags(since, _known_source(source), corpus_id=self._corpus_id(corpus))

    def list(
        self,
        *,
        corpus: str | None = None,
        text: str | None = None,
        source: str | None = None,
        image_id: str | None = None,
        offset: int = 0,
        limit: int = 100,
        cursor: str | None = None,
        corpora: Collection[str] | None = None,
    ) -> TagPage:
        """Return a page of the tags that meet all conditions given.

        Args:
            corpus: Name of a corpus.
            text: Exactly this tag, after normalisation.
            source: One of `SOURCES`.
            image_id: Of this picture.
            offset: Tags to skip, >= 0.
            limit: Tags a page, 1 to `MAX_PAGE`.
            cursor: `next_cursor` of the page before; None for the first.
            corpora: Names of the corpora whose pictures' tags are listed; None for all.

        Raises:
            InvalidRequestError: no such source, no such cursor, or offset or limit out of range.
            UnknownNameError: there is no such corpus.
        """
        if offset < 0 or not 1 <= limit <= MAX_PAGE:
            raise InvalidRequestError(
                f"offset {offset} and limit {limit} are no page", hint=f"offset from 0 on, limit 1 to {MAX_PAGE}"
            )
        tags = self._catalog.list_tags(
            corpus_id=self._corpus_id(corpus),
            text=None if text is None else tag_text(text),
            source=_known_source(source),
            image_id=image_id,
            offset=offset,
            limit=limit + 1,
            after=None if cursor is None else decode_cursor("tags", cursor, datetime, str),
            corpus_ids=None if corpora is None else list(self._catalog.corpus_ids(corpora).values()),
        )
        page, more = tags[:limit], len(tags) > limit
        return TagPage(
            tags=[info_of(tag) for tag in page],
            next_offset=offset + limit if more and cursor is None else None,
            next_cursor=encode_cursor("tags", page[-1].created_at, page[-1].tag_id) if more else None,
        )

    def texts(self, *, source: str | None = None, corpora: Collection[str] | None = None, limit: int = 100) -> TagTexts:
        """Return the texts of tags with their numbers of pictures, those of most pictures first.

        Args:
            source: One of `SOURCES`; None for any.
            corpora: Names of the corpora whose pictures count; None for all.
            limit: Texts at most.

        Raises:
            InvalidRequestError: no such source.
        """
        corpus_ids = None if corpora is None else list(self._catalog.corpus_ids(corpora).values())
        rows = self._catalog.tag_texts(source=_known_source(source), corpus_ids=corpus_ids, limit=limit)
        return TagTexts(texts=[TagText(text=text, pictures=pictures) for text, pictures in rows])

    def _corpus_id(self, name: str | None) -> str | None:
        return None if name is None else self._catalog.corpus(name).corpus_id


def tag_text(text: str) -> str:
    """Return the normalised words of a tag.

    Raises:
        InvalidRequestError: the text is blank, longer than `MAX_TAG_CHARS`, or without a word.
    """
    normal = normalise_query(text)
    if len(normal) > MAX_TAG_CHARS:
        raise InvalidRequestError(
            f"the tag has {len(normal)} characters, at most {MAX_TAG_CHARS} are allowed", hint="say it in a few words"
        )
    if not terms(normal):
        raise InvalidRequestError(f"there is no word in the tag {normal!r}", hint="a tag needs a letter or a digit")
    return normal


def new_tag(
    image_id: str,
    corpus_id: str,
    text: str,
    *,
    source: str,
    created_at: datetime,
    score: float | None = None,
    query_id: str | None = None,
) -> TagRecord:
    """Return a tag that is not in the catalog yet; its id is empty until the catalog makes one."""
    from lodestone.catalog.records import TagRecord

    return TagRecord(
        tag_id="",
        image_id=image_id,
        corpus_id=corpus_id,
        text=text,
        source=source,
        score=score,
        query_id=query_id,
        created_at=created_at,
    )


def info_of(tag: TagRecord) -> TagInfo:
    """Return the API's model of a tag."""
    return TagInfo(
        tag_id=tag.tag_id,
        image_id=tag.image_id,
        text=tag.text,
        source=tag.source,
        score=tag.score,
        query_id=tag.query_id,
        created_at=tag.created_at,
    )


def _known_source(source: str | None) -> str | None:
    if source is not None and source not in SOURCES:
        raise InvalidRequestError(f"no tags have the source {source!r}", hint=f"one of {', '.join(SOURCES)}")
    return source
