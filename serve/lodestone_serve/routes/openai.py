"""Which routes does a client of OpenAI's API find here? Embeddings by text encoders and spaces, pictures by generators."""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import re
import time
from typing import Any, Final

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response
from numpy.typing import NDArray

from lodestone.errors import InvalidRequestError
from lodestone_schemas.access import Scope
from lodestone_schemas.openai import (
    MAX_TEXT_CHARS,
    Drawing,
    DrawingList,
    DrawingRequest,
    Embedding,
    EmbeddingList,
    EmbeddingsRequest,
    EmbeddingsUsage,
)
from lodestone_serve.auth.principal import Seen, needs
from lodestone_serve.traffic.admission_middleware import at_work

EMBEDDINGS: Final = "/v1/embeddings"
GENERATIONS: Final = "/v1/images/generations"
MAX_PICTURE_INPUTS: Final = 32
_DATA_URL: Final = re.compile(r"data:image/[\w.+-]+;base64,", re.ASCII)
_WORD: Final = re.compile(r"\w+|[^\w\s]")


def openai_router() -> APIRouter:
    """Routes in OpenAI's shapes."""
    router = APIRouter(tags=["openai"], dependencies=[needs(Scope.SEARCH)])

    @router.post(EMBEDDINGS, response_model=EmbeddingList)
    async def embeddings(services: Seen, body: EmbeddingsRequest, request: Request) -> Response:
        """Vectors of texts; of pictures too, as `data:` URLs, where the model takes them."""
        inputs = [_input(place, one) for place, one in enumerate([body.input] if isinstance(body.input, str) else body.input)]
        pictures = sum(isinstance(one, bytes) for one in inputs)
        if pictures > MAX_PICTURE_INPUTS:
            raise InvalidRequestError(
                f"input: {pictures} pictures are more than {MAX_PICTURE_INPUTS}", hint="send them in several requests"
            )
        async with at_work(request):
            embedded = await services.embed(body.model, inputs)
        if body.dimensions not in {None, embedded.vectors.shape[1]}:
            raise InvalidRequestError(
                f"the model {body.model!r} has vectors of {embedded.vectors.shape[1]} numbers, not {body.dimensions}",
                hint="leave `dimensions` out",
            )
        as_text = body.encoding_format == "base64"
        tokens = sum(len(_WORD.findall(one)) for one in inputs if isinstance(one, str))
        return _json(
            EmbeddingList(
                data=[Embedding(index=at, embedding=_written(row, as_text)) for at, row in enumerate(embedded.vectors)],
                model=embedded.model,
                usage=EmbeddingsUsage(prompt_tokens=tokens, total_tokens=tokens),
            )
        )

    @router.post(GENERATIONS, response_model=DrawingList)
    async def generations(services: Seen, body: DrawingRequest, request: Request) -> Response:
        """Pictures by a generator, within its budget and as long as its breaker lets it be asked. Nothing is kept of them."""
        async with at_work(request, body.deadline_ms):
            drawn = await services.draw(body)
        files = await asyncio.to_thread(lambda: [_encoded(one, body.output_format) for one in drawn.pictures])
        sizes = [(one.shape[1], one.shape[0]) for one in drawn.pictures]
        return _json(
            DrawingList(
                created=int(time.time()),
                data=[
                    Drawing(b64_json=file, width=width, height=height)
                    for file, (width, height) in zip(files, sizes, strict=True)
                ],
                model=drawn.engine,
                output_format=body.output_format,
                size=f"{sizes[0][0]}x{sizes[0][1]}",
                cost=drawn.cost,
                warnings=list(drawn.warnings),
            )
        )

    return router


def _input(place: int, given: str) -> str | bytes:
    """A text as it is, a picture's bytes out of its `data:` URL."""
    found = _DATA_URL.match(given)
    if found is not None:
        try:
            return base64.b64decode(given[found.end() :], validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidRequestError(f"input.{place}: it is not base64: {error}", hint="send data:image/…;base64,…") from error
    if len(given) > MAX_TEXT_CHARS:
        raise InvalidRequestError(
            f"input.{place}: {len(given)} characters are more than {MAX_TEXT_CHARS}", hint="embed a shorter text"
        )
    if not given.strip():
        raise InvalidRequestError(f"input.{place}: there is no word in it", hint="leave empty texts out")
    return given


def _written(row: NDArray[np.float32], as_text: bool) -> list[float] | str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode() if as_text else row.tolist()


def _encoded(pixels: NDArray[np.uint8], kind: str) -> str:
    from PIL import Image

    buffer = io.BytesIO()
    options: dict[str, Any] = {"jpeg": {"quality": 92, "subsampling": 0}, "webp": {"quality": 92}}.get(kind, {})
    Image.fromarray(pixels).save(buffer, kind.upper(), **options)
    return base64.b64encode(buffer.getvalue()).decode()


def _json(message: EmbeddingList | DrawingList) -> Response:
    return Response(content=message.model_dump_json(), media_type="application/json")
