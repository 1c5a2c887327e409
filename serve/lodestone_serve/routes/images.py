"""Which routes hand out pictures? Facts, thumbnail and file of one picture, by id alone: no path ever comes from a client."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response

from lodestone_schemas.access import Scope
from lodestone_schemas.api import ImageInfo
from lodestone_serve.principal import Seen, needs
from lodestone_serve.services import StoredFile

# Private: a picture is for the one who asked. A thumbnail's bytes never change under its ETag; its id may get another picture.
_CACHE = "private, max-age=3600, must-revalidate"
# Should a browser be talked into showing the bytes as a page, nothing in it runs.
_INERT = "default-src 'none'; sandbox"


def images_router() -> APIRouter:
    """Routes of single pictures."""
    router = APIRouter(prefix="/v1/images", tags=["images"], dependencies=[needs(Scope.SEARCH)])

    @router.get("/{image_id}", response_model=ImageInfo)
    async def image(services: Seen, image_id: UUID) -> Response:
        """What is known about a picture."""
        found = await services.image(str(image_id))
        return Response(content=found.model_dump_json(), media_type="application/json")

    @router.get("/{image_id}/thumbnail", response_class=FileResponse, responses={304: {"description": "not changed"}})
    async def thumbnail(services: Seen, image_id: UUID, request: Request) -> Response:
        """A small version of a picture, upright."""
        return _sent(await services.thumbnail(str(image_id)), request)

    @router.get("/{image_id}/content", response_class=FileResponse, responses={304: {"description": "not changed"}})
    async def content(services: Seen, image_id: UUID, request: Request) -> Response:
        """The picture's own file."""
        return _sent(await services.content(str(image_id)), request)

    return router


def _sent(file: StoredFile, request: Request) -> Response:
    tag = f'"{file.etag}"'
    headers = {"ETag": tag, "Cache-Control": _CACHE, "Content-Security-Policy": _INERT}
    asked = {given.strip().removeprefix("W/") for given in request.headers.get("if-none-match", "").split(",")}
    if tag in asked or "*" in asked:
        return Response(status_code=304, headers=headers)
    if isinstance(file.source, bytes):
        return Response(file.source, media_type=file.media_type, headers=headers)
    return FileResponse(file.source, media_type=file.media_type, headers=headers)
