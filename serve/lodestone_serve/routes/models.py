"""Which routes tell of models? All of them, in the shape that OpenAI's clients expect, with what we know besides."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from lodestone.errors import UnknownNameError
from lodestone_schemas.access import Scope
from lodestone_schemas.openai import ModelInfo, ModelList
from lodestone_serve.auth.principal import Seen, needs


def models_router() -> APIRouter:
    """Routes of models."""
    router = APIRouter(prefix="/v1/models", tags=["models"], dependencies=[needs(Scope.SEARCH)])

    @router.get("", response_model=ModelList)
    async def models(services: Seen) -> Response:
        """Spaces, text encoders, generators and backbones, with their versions."""
        return Response(content=(await services.models()).model_dump_json(), media_type="application/json")

    @router.get("/{model_id:path}", response_model=ModelInfo)
    async def model(services: Seen, model_id: str) -> Response:
        """One of them, by id."""
        known = {one.id: one for one in (await services.models()).data}
        if model_id not in known:
            raise UnknownNameError.among("model", model_id, list(known))
        return Response(content=known[model_id].model_dump_json(), media_type="application/json")

    return router
