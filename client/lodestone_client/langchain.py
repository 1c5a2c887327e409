"""LangChain retriever that finds pictures. It needs the extra `langchain` of the client (langchain-core)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, PrivateAttr, SecretStr

from lodestone_client.documents import facts_of, request_for, text_of
from lodestone_client.service_clients import ServiceClients
from lodestone_schemas.api import SearchFilters, SearchRequest, SearchResponse
from lodestone_schemas.base import MAX_LIMIT


class LodestoneRetriever(BaseRetriever):
    """Retrieves pictures from a Lodestone service as documents.

    A document's text is what a language model can read of the picture: its captions and tags, or its path where it has
    neither. The document's id is the picture's. Its metadata holds `image_id`, `query_id`, `rank`, `score`, `corpus`, `root`,
    `path`, `source`, `thumbnail` (an address that needs the same key), `width`, `height` and, where known, `taken_at`.

        LodestoneRetriever(url="http://127.0.0.1:7860", k=5).invoke("two dogs on a beach")

    `invoke` takes `k` and `filters` for one query.

    Raises:
        ConfigurationError: no URL is given, here or in LODESTONE_URL.
        LodestoneError: a query failed, as the client's methods raise it.
    """

    url: str | None = Field(None, description="The service's address; default: LODESTONE_URL.")
    api_key: SecretStr | None = Field(
        None, description="Its key; default: LODESTONE_API_KEY, for the URL of the environment alone."
    )
    k: int = Field(10, ge=1, le=MAX_LIMIT, description="Most pictures that a query returns.")
    filters: SearchFilters | None = Field(None, description="What restricts every query; it replaces the options' filters.")
    options: SearchRequest | None = Field(
        None, description="What every query asks for besides, e.g. `SearchRequest(guides=0, deadline_ms=2_000)`."
    )
    picture_tags: bool = Field(
        False, description="Whether to read the tags that people gave each picture, which is one request more for each."
    )
    timeout_s: float = Field(60.0, gt=0, description="Seconds for a whole answer, further attempts included.")

    _clients: ServiceClients = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:  # noqa: ANN401 - pydantic's
        """Check the address and the key, without asking the service."""
        super().model_post_init(context)
        key = None if self.api_key is None else self.api_key.get_secret_value()
        self._clients = ServiceClients(self.url, key, self.timeout_s)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain's
        k: int | None = None,
        filters: SearchFilters | Mapping[str, Any] | None = None,
    ) -> list[Document]:
        answer, tags = self._clients.search(self._request(query, k, filters), tags=self.picture_tags)
        return self._documents(answer, tags)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain's
        k: int | None = None,
        filters: SearchFilters | Mapping[str, Any] | None = None,
    ) -> list[Document]:
        answer, tags = await self._clients.search_async(self._request(query, k, filters), tags=self.picture_tags)
        return self._documents(answer, tags)

    def close(self) -> None:
        """Close the connections to the service; the next query opens new ones."""
        self._clients.close()

    async def aclose(self) -> None:
        """Close the connections to the service, those of this event loop among them."""
        await self._clients.close_async()

    def _request(self, query: str, k: int | None, filters: SearchFilters | Mapping[str, Any] | None) -> SearchRequest:
        chosen = self.filters if filters is None else filters
        return request_for(query, limit=self.k if k is None else k, options=self.options, filters=chosen)

    def _documents(self, answer: SearchResponse, tags: Sequence[Sequence[str]]) -> list[Document]:
        return [
            Document(
                id=hit.image_id,
                page_content=text_of(hit, texts),
                metadata=facts_of(hit, answer, self._clients.url),
            )
            for hit, texts in zip(answer.hits, tags, strict=True)
        ]
