"""Routes that tag single pictures: labels, technical quality and a safety score, on upload and on request."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, File, Request, UploadFile

from lodestone.services.tagging import TaggingUseCases
from lodestone_schemas.api import PictureTags
from lodestone_serve.auth.principal import RequestCaller
from lodestone_serve.traffic.admission_middleware import at_work


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
