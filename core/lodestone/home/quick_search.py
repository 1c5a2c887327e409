"""Searches and thumbnails of a running service of this machine by plain requests.

The client is not imported for them, because that takes longer than a search. What is not answered well at once is asked again
by the client, which knows how to wait, to try again and what errors mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final

from lodestone.home.running_service.address import TOKEN_HEADER, ServiceAddress
from lodestone_schemas.searching import SearchRequest, SearchResponse

if TYPE_CHECKING:
    from lodestone_client import Lodestone
    from lodestone_schemas.searching import SearchOptions

_TIMEOUT_S: Final = 60.0
_THUMBNAIL_S: Final = 10.0
_MARGIN_S: Final = 15.0  # beyond a query's own deadline


class QuickSearcher:
    """Searches a running service for one command.

    Args:
        address: From `find_service`.
        client: Returns the client of this service.
    """

    def __init__(self, address: ServiceAddress, client: Callable[[], Lodestone]) -> None:
        self._address = address
        self._client = client

    def search(self, request: SearchRequest) -> SearchResponse:
        """Return the final answer to a query in words, as `Lodestone.search` does, with its errors."""
        from http.client import HTTPException

        longest = max(_TIMEOUT_S, (request.deadline_ms or 0) / 1000 + _MARGIN_S)
        headers = {"Content-Type": "application/json", TOKEN_HEADER: self._address.token}
        try:
            with closing(self._address.connect(timeout_s=longest)) as connection:
                body = request.model_dump_json(exclude_unset=True).encode()
                connection.request("POST", "/v1/search", body, headers)
                answer = connection.getresponse()
                if answer.status == 200:
                    return SearchResponse.model_validate_json(answer.read())
        except (OSError, HTTPException, ValueError):
            pass  # the client says what is wrong, if it still is
        return self._client().search(request)

    def thumbnail(self, image_id: str) -> bytes:
        """Return the picture's thumbnail, as `Lodestone.thumbnail` does, with its errors."""
        from http.client import HTTPException

        try:
            with closing(self._address.connect(timeout_s=_THUMBNAIL_S)) as connection:
                connection.request("GET", f"/v1/images/{image_id}/thumbnail", headers={TOKEN_HEADER: self._address.token})
                answer = connection.getresponse()
                if answer.status == 200:
                    return answer.read()
        except (OSError, HTTPException, ValueError):
            pass  # the client says what is wrong
        return self._client().thumbnail(image_id)

    def similar(self, image_id: str, options: SearchOptions | None = None) -> SearchResponse:
        """Return pictures like an indexed one."""
        return self._client().similar(image_id, options)

    def by_picture(self, picture: bytes, options: SearchOptions | None = None, *, more: Sequence[bytes] = ()) -> SearchResponse:
        """Return pictures like the one in `picture`, a picture file's content, and like those in `more`."""
        return self._client().by_picture(picture, options, more=more)
