"""Routes that answer questions: search in words, by uploaded pictures, by an indexed one, and composed of several parts."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, File, Form, Query, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from lodestone.services.search import SearchUseCases
from lodestone_schemas.api import (
    MAX_GUIDES,
    MAX_LIMIT,
    MAX_OFFSET,
    MAX_QUERY_CHARS,
    SearchFilters,
    SearchOptions,
    SearchRequest,
    SearchResponse,
    UrlSearchRequest,
)
from lodestone_schemas.dates import RequestDate
from lodestone_schemas.searching import WHICH_CLOCK, WHICH_VALUES
from lodestone_serve.auth.principal import RequestCaller
from lodestone_serve.responses.pages import FIELDS_DESCRIPTION, MAX_FIELDS_CHARS, Fields, FieldSelection, select_fields
from lodestone_serve.telemetry.metrics import Metrics
from lodestone_serve.traffic.admission_middleware import at_work
from lodestone_serve.traffic.fetching import Fetcher

IMAGE_SEARCH = "/v1/search/image"
_OPTIONS_CHARS = 65_536
_Chosen = Annotated[FieldSelection, Depends(Fields(SearchResponse))]


def _checked_fields(texts: list[str]) -> list[str]:
    """Return conditions on fields of parts that `SearchFilters` takes.

    Raises:
        ValueError: it does not.
    """
    try:
        SearchFilters.model_validate({"where": texts})
    except ValidationError as error:
        raise ValueError("; ".join(one["msg"] for one in error.errors())) from error
    return texts


class OptionParams(BaseModel):
    """`SearchOptions` spelt as query parameters, which cannot nest."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: int = Field(20, ge=1, le=MAX_LIMIT)
    offset: int = Field(0, ge=0, le=MAX_OFFSET)
    corpora: list[str] = Field(default_factory=list, max_length=100)
    roots: list[str] = Field(default_factory=list, max_length=100)
    path_prefix: str | None = Field(None, max_length=4096)
    taken_from: RequestDate | None = Field(None, description=f"Taken at or after the beginning of this. {WHICH_CLOCK}")
    taken_to: RequestDate | None = Field(None, description=f"Taken before the beginning of this. {WHICH_CLOCK}")
    where: Annotated[list[str], AfterValidator(_checked_fields)] = Field(
        default_factory=list,
        description=f"Fields that further parts of pictures have, as NAME=VALUE. {WHICH_VALUES}",
    )
    spaces: list[str] | None = Field(None, max_length=16)
    fusion: str | None = Field(None, max_length=64)
    deadline_ms: int | None = Field(None, ge=1, le=600_000)
    explain: bool = False
    collapse: bool = False
    fields: str | None = Field(None, max_length=MAX_FIELDS_CHARS, description=FIELDS_DESCRIPTION)

    def options(self) -> SearchOptions:
        """Return the options as the body of a search has them."""
        return SearchOptions(**self._members())

    def _members(self) -> dict[str, Any]:
        nested = self.model_dump(include=set(SearchFilters.model_fields))
        flat = self.model_dump(exclude={*SearchFilters.model_fields, "fields"})
        return {**flat, "filters": SearchFilters(**nested)}


class WordsParams(OptionParams):
    """A search by words spelt as query parameters; the body of `POST /v1/search` takes more."""

    q: str = Field(max_length=MAX_QUERY_CHARS, description="What the picture shows, in words.")
    generators: list[str] | None = Field(None, max_length=16, description="Guide generators; default: the profile's.")
    guides: int | None = Field(None, ge=0, le=MAX_GUIDES, description="Most guides to use; 0 for the text pass alone.")
    seed: int = Field(0, ge=0, le=2**31 - 1)

    def request(self) -> SearchRequest:
        """Return the search as the body of one has it."""
        members = self._members()
        return SearchRequest(query=members.pop("q"), **members)


def search_router(use_cases: SearchUseCases, metrics: Metrics, fetcher: Fetcher) -> APIRouter:
    """Routes that ask the engine."""
    router = APIRouter(tags=["search"])

    def answered(response: SearchResponse, fields: FieldSelection) -> Response:
        metrics.observe_answer(response)
        # Serialised once, by pydantic's own writer; FastAPI would validate a second time what the engine has just built.
        return fields.answer(response)

    @router.post("/v1/search", response_model=SearchResponse)
    async def search(caller: RequestCaller, body: SearchRequest, fields: _Chosen, request: Request) -> Response:
        """Find pictures by words, or by words and pictures together; answers once, when the answer is final.

        `refine_of` takes over the parts of an earlier query. The answer lists all parts with their weights.
        """
        async with at_work(request, body.deadline_ms, strictly=body.region is not None) as work:
            response = await use_cases.answer(body, caller, context=work.request_context)
            work.answered(response)
        return answered(response, fields)

    @router.get("/v1/search", response_model=SearchResponse)
    async def simple_search(caller: RequestCaller, params: Annotated[WordsParams, Query()], request: Request) -> Response:
        """Find pictures by the words `q`: the same as `POST /v1/search`, for a browser or a shell."""
        fields = select_fields(SearchResponse, params.fields)
        async with at_work(request, params.deadline_ms) as work:
            response = await use_cases.answer(params.request(), caller, context=work.request_context)
            work.answered(response)
        return answered(response, fields)

    @router.post(IMAGE_SEARCH, response_model=SearchResponse)
    async def search_by_picture(
        caller: RequestCaller,
        request: Request,
        fields: _Chosen,
        *,
        image: Annotated[UploadFile, File(description="The picture to search by.")],
        images: Annotated[list[UploadFile] | None, File(description="Further pictures that results are to be like.")] = None,
        options: Annotated[
            str, Form(max_length=_OPTIONS_CHARS, description="SearchRequest as JSON; it may have words and other parts too.")
        ] = "{}",
    ) -> Response:
        """Find pictures like uploaded ones, alone or with the parts that `options` names. Nothing of the upload is kept."""
        try:
            chosen = SearchRequest.model_validate_json(options)
        except ValidationError as error:
            raise RequestValidationError(
                [{**item, "loc": ("body", "options", *item["loc"])} for item in error.errors(include_url=False)]
            ) from error
        async with at_work(request, chosen.deadline_ms, strictly=True) as work:
            picture, more = await image.read(), [await further.read() for further in images or []]
            response = await use_cases.by_picture(picture, chosen, caller, context=work.request_context, more=more)
        return answered(response, fields)

    @router.post("/v1/search/url", response_model=SearchResponse)
    async def search_by_url(caller: RequestCaller, body: UrlSearchRequest, fields: _Chosen, request: Request) -> Response:
        """Find pictures like one at a public URL, which the service fetches. Off unless `serve.fetch_urls` is set."""
        async with at_work(request, body.options.deadline_ms, strictly=True) as work:
            picture = await fetcher.fetch(body.url)
            response = await use_cases.by_picture(picture, body.options, caller, context=work.request_context)
        return answered(response, fields)

    @router.get("/v1/images/{image_id}/similar", response_model=SearchResponse)
    async def similar(
        caller: RequestCaller, image_id: UUID, params: Annotated[OptionParams, Query()], request: Request
    ) -> Response:
        """Find pictures like an indexed one."""
        fields = select_fields(SearchResponse, params.fields)
        async with at_work(request, params.deadline_ms) as work:
            response = await use_cases.similar(str(image_id), params.options(), caller, context=work.request_context)
        return answered(response, fields)

    return router
