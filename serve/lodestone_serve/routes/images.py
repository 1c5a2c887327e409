"""Routes that hand out pictures and tag single ones, by id alone. No path ever comes from a client.

Where files are is told to callers on the service's own machine alone.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, File, Query, Request, UploadFile
from fastapi.responses import FileResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from lodestone.errors import ForbiddenError
from lodestone.paging import MAX_CURSOR_CHARS, PageRequest
from lodestone.services.pictures import PictureUseCases
from lodestone.services.tagging import TaggingUseCases
from lodestone_schemas.api import MAX_LIMIT, ImageInfo, ImagePage, PathsRequest, PicturePaths, PictureTags
from lodestone_serve.auth.passes import SameMachine
from lodestone_serve.auth.principal import RequestCaller
from lodestone_serve.responses.pages import (
    CURSOR_DESCRIPTION,
    FIELDS_DESCRIPTION,
    MAX_FIELDS_CHARS,
    NOT_CHANGED,
    Fields,
    FieldSelection,
    json_answer,
    select_fields,
    unless_known,
)
from lodestone_serve.responses.picture_files import picture_response
from lodestone_serve.routes.threads import in_thread
from lodestone_serve.traffic.admission_middleware import at_work

_Chosen = Annotated[FieldSelection, Depends(Fields(ImageInfo))]


class ImageParams(BaseModel):
    """Which pictures, which page of them, and what of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    corpus: str = Field(max_length=1_000, description="Name of a corpus.")
    limit: int = Field(50, ge=1, le=MAX_LIMIT, description="Rows a page.")
    cursor: str | None = Field(None, max_length=MAX_CURSOR_CHARS, description=CURSOR_DESCRIPTION)
    fields: str | None = Field(None, max_length=MAX_FIELDS_CHARS, description=FIELDS_DESCRIPTION)


def images_router(use_cases: PictureUseCases, same_machine: SameMachine) -> APIRouter:
    """Return the router of single pictures.

    Args:
        use_cases: They know the pictures.
        same_machine: Tells who may ask where files are.
    """
    router = APIRouter(prefix="/v1/images", tags=["images"])

    @router.get("", response_model=ImagePage, responses=NOT_CHANGED)
    async def images(caller: RequestCaller, params: Annotated[ImageParams, Query()], request: Request) -> Response:
        """A corpus's pictures, by root and path; those of directories that are switched off, too."""
        fields = select_fields(ImagePage, params.fields)
        page = PageRequest(params.limit, cursor=params.cursor)
        return unless_known(request, fields.json(await in_thread(use_cases.page, params.corpus, page, caller)))

    @router.post("/paths", response_model=PicturePaths)
    async def paths(caller: RequestCaller, body: PathsRequest, request: Request) -> Response:
        """Where pictures' files are, for callers on the service's machine: a service without keys, asked at loopback."""
        if not same_machine.sent(request.headers):
            raise ForbiddenError(
                "where files are is told on the service's own machine alone",
                hint="take `root` and `uri`, or run `lodestone search` there",
            )
        found = await in_thread(use_cases.paths, body, caller)
        return json_answer(found)

    @router.get("/{image_id}", response_model=ImageInfo, responses=NOT_CHANGED)
    async def image(caller: RequestCaller, image_id: UUID, fields: _Chosen, request: Request) -> Response:
        """What is known about a picture."""
        return unless_known(request, fields.json(await in_thread(use_cases.image, str(image_id), caller)))

    @router.get("/{image_id}/thumbnail", response_class=FileResponse, responses=NOT_CHANGED)
    async def thumbnail(caller: RequestCaller, image_id: UUID, request: Request) -> Response:
        """A small version of a picture, upright."""
        return picture_response(await in_thread(use_cases.thumbnail, str(image_id), caller), request)

    @router.get("/{image_id}/content", response_class=FileResponse, responses=NOT_CHANGED)
    async def content(caller: RequestCaller, image_id: UUID, request: Request) -> Response:
        """The picture's own file, once it is embedded."""
        return picture_response(await in_thread(use_cases.content, str(image_id), caller), request)

    return router


def tagging_router(use_cases: TaggingUseCases) -> APIRouter:
    """Routes of automatic tagging."""
    router = APIRouter(prefix="/v1/images", tags=["images"])

    @router.post("/tags", response_model=PictureTags)
    async def tag_picture(
        caller: RequestCaller,
        request: Request,
        image: Annotated[UploadFile, File(description="The picture to tag.")],
    ) -> PictureTags:
        """Find out what an uploaded picture shows, how sharp and exposed it is, and whether it is safe. Nothing is kept."""
        async with at_work(request, strictly=True) as work:
            return await use_cases.of_picture(await image.read(), caller, deadline=work.ticket.deadline)

    @router.get("/{image_id}/tags", response_model=PictureTags)
    async def tag_image(caller: RequestCaller, image_id: UUID, request: Request) -> PictureTags:
        """Find out the same of an indexed picture, from its own file."""
        async with at_work(request, strictly=True) as work:
            return await use_cases.of_image(str(image_id), caller, deadline=work.ticket.deadline)

    return router
