"""Routes of models: all of them, in the shape that OpenAI's clients expect, with what we know besides."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from lodestone.services.models import ModelUseCases
from lodestone_schemas.openai import ModelInfo, ModelList
from lodestone_serve.auth.principal import RequestCaller
from lodestone_serve.routes.threads import in_thread


def models_router(use_cases: ModelUseCases) -> APIRouter:
    """Return the router of models."""
    router = APIRouter(prefix="/v1/models", tags=["models"])

    @router.get("", response_model=ModelList)
    async def models(caller: RequestCaller) -> Response:
        """Spaces, text encoders, generators and backbones, with their versions."""
        return _json(await in_thread(use_cases.all, caller))

    @router.get("/{model_id:path}", response_model=ModelInfo)
    async def model(caller: RequestCaller, model_id: str) -> Response:
        """One of them, by id."""
        return _json(await in_thread(use_cases.get, model_id, caller))

    return router


def _json(message: ModelList | ModelInfo) -> Response:
    return Response(content=message.model_dump_json(), media_type="application/json")
