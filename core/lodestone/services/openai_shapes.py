"""Requests and answers in the shapes of OpenAI's API, made of texts, pictures and vectors."""

from __future__ import annotations

import base64
import binascii
import io
import re
import time
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import InvalidRequestError
from lodestone.services.models import Embedded, GeneratedImages
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

MAX_PICTURE_INPUTS: Final = 32
_DATA_URL: Final = re.compile(r"data:image/[\w.+-]+;base64,", re.ASCII)
_WORD: Final = re.compile(r"\w+|[^\w\s]")


def inputs_of(request: EmbeddingsRequest) -> list[str | bytes]:
    """Return the texts and the picture files that are to be embedded.

    Raises:
        InvalidRequestError: too many pictures, or an input that cannot be read.
    """
    given = [request.input] if isinstance(request.input, str) else request.input
    inputs = [_input(place, text) for place, text in enumerate(given)]
    pictures = sum(isinstance(content, bytes) for content in inputs)
    if pictures > MAX_PICTURE_INPUTS:
        raise InvalidRequestError(
            f"input: {pictures} pictures are more than {MAX_PICTURE_INPUTS}", hint="send them in several requests"
        )
    return inputs


def embedding_list(request: EmbeddingsRequest, inputs: list[str | bytes], embedded: Embedded) -> EmbeddingList:
    """Return the answer to `request` that carries the vectors of its `inputs`.

    Raises:
        InvalidRequestError: the model has vectors of another size than was asked for.
    """
    if request.dimensions not in {None, embedded.vectors.shape[1]}:
        raise InvalidRequestError(
            f"the model {request.model!r} has vectors of {embedded.vectors.shape[1]} numbers, not {request.dimensions}",
            hint="leave `dimensions` out",
        )
    as_text = request.encoding_format == "base64"
    tokens = sum(len(_WORD.findall(content)) for content in inputs if isinstance(content, str))
    return EmbeddingList(
        data=[Embedding(index=at, embedding=_written(row, as_text)) for at, row in enumerate(embedded.vectors)],
        model=embedded.model,
        usage=EmbeddingsUsage(prompt_tokens=tokens, total_tokens=tokens),
    )


def drawing_list(request: DrawingRequest, drawn: GeneratedImages) -> DrawingList:
    """Return the answer to `request` that carries the pictures as files. Blocks while they are encoded."""
    files = [_encoded(pixels, request.output_format) for pixels in drawn.pictures]
    sizes = [(pixels.shape[1], pixels.shape[0]) for pixels in drawn.pictures]
    return DrawingList(
        created=int(time.time()),
        data=[Drawing(b64_json=file, width=width, height=height) for file, (width, height) in zip(files, sizes, strict=True)],
        model=drawn.engine,
        output_format=request.output_format,
        size=f"{sizes[0][0]}x{sizes[0][1]}",
        cost=drawn.cost,
        warnings=list(drawn.warnings),
    )


def _input(place: int, given: str) -> str | bytes:
    """Return a text as it is, and a picture's bytes out of its `data:` URL."""
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
