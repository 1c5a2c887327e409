"""Documents of pictures for frameworks of language models: the text of a hit, the facts beside it, and how it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from lodestone_schemas.api import Hit, SearchFilters, SearchRequest, SearchResponse, TagPage
from lodestone_schemas.errors import InvalidRequestError


def request_for(
    query: str,
    *,
    limit: int,
    options: SearchRequest | None = None,
    filters: SearchFilters | Mapping[str, Any] | None = None,
) -> SearchRequest:
    """Return the request for one query of a framework.

    Args:
        query: What the pictures show, in words.
        limit: Most pictures to return.
        options: What every query of the retriever asks for besides.
        filters: What this query asks for instead of the options' filters.

    Raises:
        InvalidRequestError: a value is out of range, or a filter has an unknown member.
    """
    asked: dict[str, Any] = {} if options is None else options.model_dump(exclude_unset=True)
    asked |= {"query": query, "limit": limit}
    if filters is not None:
        asked["filters"] = filters.model_dump(exclude_unset=True) if isinstance(filters, SearchFilters) else dict(filters)
    try:
        return SearchRequest.model_validate(asked)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidRequestError(
            f"this search cannot be asked, because of its {place}: {first['msg']}",
            hint=f"filters are members of SearchFilters: {', '.join(SearchFilters.model_fields)}"
            if place.startswith("filters")
            else "see SearchRequest in the reference of the client for what may be asked",
        ) from error


def text_of(hit: Hit, tags: Iterable[str] = ()) -> str:
    """Return what a language model can read of a picture: its captions and tags, or its path where it has neither."""
    lines = [caption.strip() for caption in hit.captions if caption.strip()]
    named = ", ".join(tags)
    if named:
        lines.append(f"Tags: {named}")
    return "\n".join(lines) or hit.uri


def facts_of(hit: Hit, response: SearchResponse, url: str) -> dict[str, Any]:
    """Return the facts about a hit, as JSON can hold them; what is not known is left out.

    Args:
        hit: One of the response's hits.
        response: The answer.
        url: The service's address, without a slash at its end. The thumbnail's address begins with it.
    """
    facts: dict[str, Any] = {
        "image_id": hit.image_id,
        "query_id": response.query_id,
        "rank": hit.rank,
        "score": hit.score,
        "corpus": hit.corpus,
        "root": hit.root,
        "path": hit.uri,
        "source": f"{hit.corpus}/{hit.root}/{hit.uri}",
        "thumbnail": f"{url}{hit.thumbnail}",
        "width": hit.width,
        "height": hit.height,
    }
    if hit.taken_at is not None:
        facts["taken_at"] = hit.taken_at.isoformat()
    if hit.missing:
        facts["missing"] = True
    return facts


def tag_texts(page: TagPage) -> list[str]:
    """Return the texts of a picture's tags, each once, in the order of the page."""
    return list(dict.fromkeys(tag.text for tag in page.tags))
