"""Routes in the shapes of OpenAI's API: embeddings by text encoders and spaces, pictures by generators."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lodestone.services.models import ModelUseCases
from lodestone.services.openai_shapes import drawing_list, embedding_list, inputs_of
from lodestone_schemas.openai import DrawingList, DrawingRequest, EmbeddingList, EmbeddingsRequest
from lodestone_serve.auth.principal import RequestCaller
from lodestone_serve.responses.pages import json_answer
from lodestone_serve.routes.threads import in_thread
from lodestone_serve.traffic.admission_middleware import at_work

EMBEDDINGS: Final = "/v1/embeddings"
GENERATIONS: Final = "/v1/images/generations"


def openai_router(use_cases: ModelUseCases) -> APIRouter:
    """Routes in OpenAI's shapes."""
    router = APIRouter(tags=["openai"])

    @router.post(EMBEDDINGS, response_model=EmbeddingList)
    async def embeddings(caller: RequestCaller, body: EmbeddingsRequest, request: Request) -> Response:
        """Vectors of texts; of pictures too, as `data:` URLs, where the model takes them."""
        inputs = inputs_of(body)
        async with at_work(request):
            embedded = await use_cases.embed(body.model, inputs, caller)
        return json_answer(embedding_list(body, inputs, embedded))

    @router.post(GENERATIONS, response_model=DrawingList)
    async def generations(caller: RequestCaller, body: DrawingRequest, request: Request) -> Response:
        """Pictures by a generator, within its budget and as long as its breaker lets it be asked. Nothing is kept of them."""
        async with at_work(request, body.deadline_ms):
            drawn = await use_cases.draw(body, caller)
        return json_answer(await in_thread(drawing_list, body, drawn))

    return router
