"""Haystack component that finds pictures. It needs the extra `haystack` of the client (haystack-ai).

Haystack reports usage to its makers unless HAYSTACK_TELEMETRY_ENABLED=False is set before it is imported. Of this component
such a report names the type, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret
from pydantic import ValidationError

from lodestone_client.documents import facts_of, request_for, text_of
from lodestone_client.service_clients import ServiceClients
from lodestone_schemas.api import SearchRequest, SearchResponse
from lodestone_schemas.errors import InvalidRequestError


@component
class LodestoneRetriever:
    """Retrieves pictures from a Lodestone service as documents.

    A document's content is what a language model can read of the picture: its captions and tags, or its path where it has
    neither. The document's id is the picture's. Its meta holds `image_id`, `query_id`, `rank`, `corpus`, `root`, `path`,
    `source`, `thumbnail` (an address that needs the same key), `width`, `height` and, where known, `taken_at`.

        LodestoneRetriever(url="http://127.0.0.1:7860", top_k=5).run(query="two dogs on a beach")["documents"]

    Args:
        url: The service's address; default: LODESTONE_URL.
        api_key: Its key; default: LODESTONE_API_KEY, for the URL of the environment alone.
        top_k: Most pictures that a query returns, 1 to 200.
        filters: What restricts every query, as members of `SearchFilters`, e.g. `{"corpora": ["family"]}`. Haystack's own
            filters, with `field` and `operator`, are refused.
        options: What every query asks for besides, as members of `SearchRequest`, e.g. `{"guides": 0}`.
        picture_tags: Whether to read the tags that people gave each picture, which is one request more for each.
        timeout_s: Seconds for a whole answer, further attempts included.

    Raises:
        InvalidRequestError: `top_k`, a filter or an option can be none.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: Secret | None = None,
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
        picture_tags: bool = False,
        timeout_s: float = 60.0,
    ) -> None:
        self.url = url
        self.api_key = api_key
        self.top_k = top_k
        self.filters = filters
        self.options = options
        self.picture_tags = picture_tags
        self.timeout_s = timeout_s
        self._options = _options(options)
        self._clients: ServiceClients | None = None
        self._request("any", None, None)  # what can be told without the service is told at once

    def warm_up(self) -> None:
        """Read the key and check the address, without asking the service.

        Raises:
            ConfigurationError: no URL is given, here or in LODESTONE_URL.
        """
        self._opened()

    def to_dict(self) -> dict[str, Any]:
        """Return the component as a pipeline's file holds it. A key is held by the name of its variable.

        Raises:
            ValueError: the key was given as a token, which Haystack never writes.
        """
        written: dict[str, Any] = default_to_dict(
            self,
            url=self.url,
            api_key=self.api_key,
            top_k=self.top_k,
            filters=self.filters,
            options=self.options,
            picture_tags=self.picture_tags,
            timeout_s=self.timeout_s,
        )
        return written

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> LodestoneRetriever:
        """Return the component that `to_dict` wrote."""
        made: LodestoneRetriever = default_from_dict(cls, data)
        return made

    @component.output_types(documents=list[Document])
    def run(self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None) -> dict[str, list[Document]]:
        """Return `documents`, the best first.

        Args:
            query: What the pictures show, in words.
            filters: Used instead of the component's own.
            top_k: Used instead of the component's own.

        Raises:
            LodestoneError: the query failed, as the client's methods raise it.
        """
        clients = self._opened()
        answer, tags = clients.search(self._request(query, filters, top_k), tags=self.picture_tags)
        return {"documents": _documents(answer, tags, clients.url)}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Return what `run` returns, without blocking the event loop."""
        clients = self._opened()
        answer, tags = await clients.search_async(self._request(query, filters, top_k), tags=self.picture_tags)
        return {"documents": _documents(answer, tags, clients.url)}

    def close(self) -> None:
        """Close the connections to the service; the next query opens new ones."""
        if self._clients is not None:
            self._clients.close()

    async def close_async(self) -> None:
        """Close the connections to the service, those of this event loop among them."""
        if self._clients is not None:
            await self._clients.close_async()

    def _opened(self) -> ServiceClients:
        if self._clients is None:
            key = None if self.api_key is None else self.api_key.resolve_value()
            self._clients = ServiceClients(self.url, key, self.timeout_s)
        return self._clients

    def _request(self, query: str, filters: Mapping[str, Any] | None, top_k: int | None) -> SearchRequest:
        return request_for(
            query,
            limit=self.top_k if top_k is None else top_k,
            options=self._options,
            filters=self.filters if filters is None else filters,
        )


def _options(given: Mapping[str, Any] | None) -> SearchRequest | None:
    try:
        return None if given is None else SearchRequest.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidRequestError(
            f"the option {'.'.join(str(part) for part in first['loc'])} cannot be asked for: {first['msg']}",
            hint="options are members of SearchRequest, e.g. {'guides': 0}",
        ) from error


def _documents(answer: SearchResponse, tags: Sequence[Sequence[str]], url: str) -> list[Document]:
    found = []
    for hit, texts in zip(answer.hits, tags, strict=True):
        meta = facts_of(hit, answer, url)
        del meta["score"]  # a document has a score of its own
        found.append(Document(id=hit.image_id, content=text_of(hit, texts), meta=meta, score=hit.score))
    return found
