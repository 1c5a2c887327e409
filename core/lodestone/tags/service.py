"""Who gives and takes tags? One object over the catalog: add, remove, undo, list.

Tags are facts of the catalog. What searches see of them, the sparse collection, is brought up to date by `delivery.deliver`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lodestone.access.visibility import EVERYTHING, Visibility
from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone.paging import decode_cursor, encode_cursor
from lodestone.query.resolve import normalise_query
from lodestone.tags.terms import terms
from lodestone_schemas.api import TagInfo, TagPage

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.catalog.records import TagRecord

USER: Final = "user"  # given by hand
IMPLICIT: Final = "implicit"  # left by a search that found the picture
FEEDBACK: Final = "feedback"  # left by a search whose answer was said to be right
SOURCES: Final = (USER, IMPLICIT, FEEDBACK)
MAX_TAG_CHARS: Final = 200
MAX_PAGE: Final = 1_000


class TagService:
    """Tags of one home. Blocking and thread-safe, as the catalog is."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def add(self, image_ids: Sequence[str], text: str, *, source: str = USER) -> list[TagInfo]:
        """Tag pictures; a picture that has this tag from this source keeps the one it has.

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
        records = [new_tag(one, images[one].corpus_id, text, source=source, created_at=now) for one in wanted]
        return [info_of(one) for one in self._catalog.add_tags(records)]

    def remove(self, tag_ids: Sequence[str], *, visibility: Visibility = EVERYTHING) -> int:
        """Take tags away by id; ids that are unknown, or not seen, are ignored. Returns how many there were."""
        wanted = list(dict.fromkeys(tag_ids))
        if visibility.corpora is not None:
            seen = set(self._catalog.corpus_ids(visibility.corpora).values())
            tags = {tag_id: self._catalog.tag(tag_id) for tag_id in wanted}
            wanted = [tag_id for tag_id, tag in tags.items() if tag is not None and tag.corpus_id in seen]
        return self._catalog.remove_tags(wanted)

    def undo(self, *, since: datetime, source: str | None = None, corpus: str | None = None) -> int:
        """Take away every tag that was created at or after `since`; returns how many.

        Args:
            since: Aware.
            source: Only tags of this source; None for all.
            corpus: Only pictures of the corpus of this name; None for all.

        Raises:
            InvalidRequestError: no such source, or `since` has no time zone.
            UnknownNameError: no such corpus.
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
        visibility: Visibility = EVERYTHING,
    ) -> TagPage:
        """A page of tags; the arguments restrict it together.

        Args:
            corpus: Name of a corpus.
            text: Exactly this tag.
            source: One of `SOURCES`.
            image_id: Of this picture.
            offset: Tags to skip, >= 0.
            limit: Tags a page, 1 to `MAX_PAGE`.
            cursor: `next_cursor` of the page before; None for the first.
            visibility: Of whoever asks: pictures of other corpora are as if they had no tags.

        Raises:
            InvalidRequestError: no such source, no such cursor, or offset or limit out of range.
            UnknownNameError: no such corpus.
        """
        if offset < 0 or not 1 <= limit <= MAX_PAGE:
            raise InvalidRequestError(
                f"offset {offset} and limit {limit} are no page", hint=f"offset from 0 on, limit 1 to {MAX_PAGE}"
            )
        if corpus is not None and not visibility.sees(corpus):
            raise visibility.unknown_corpus(corpus, visibility.corpora or ())
        found = self._catalog.list_tags(
            corpus_id=self._corpus_id(corpus),
            text=None if text is None else tag_text(text),
            source=_known_source(source),
            image_id=image_id,
            offset=offset,
            limit=limit + 1,
            after=None if cursor is None else decode_cursor("tags", cursor, datetime, str),
            corpus_ids=None if visibility.corpora is None else list(self._catalog.corpus_ids(visibility.corpora).values()),
        )
        page, more = found[:limit], len(found) > limit
        return TagPage(
            tags=[info_of(one) for one in page],
            next_offset=offset + limit if more and cursor is None else None,
            next_cursor=encode_cursor("tags", page[-1].created_at, page[-1].tag_id) if more else None,
        )

    def _corpus_id(self, name: str | None) -> str | None:
        return None if name is None else self._catalog.corpus(name).corpus_id


def tag_text(text: str) -> str:
    """The normalised words of a tag.

    Raises:
        InvalidRequestError: blank, longer than `MAX_TAG_CHARS`, or without a word.
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
    """A tag that the catalog has not seen yet: it mints the id."""
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
    """As it crosses the API."""
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
