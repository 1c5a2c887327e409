"""API models of the OpenAI-compatible endpoints: models, embeddings and drawn pictures, with our extensions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from lodestone_schemas.base import MAX_QUERY_CHARS, Model

MAX_INPUTS = 256
MAX_INPUT_CHARS = 16_000_000  # a picture as a data: URL; a separate check limits texts to fewer characters
MAX_TEXT_CHARS = 8_000
MAX_PICTURES = 10

ModelKind = Literal["space", "text_encoder", "backbone", "generator"]
Input = Annotated[str, Field(min_length=1, max_length=MAX_INPUT_CHARS)]


class ModelInfo(Model):
    """Describes one model: the members that OpenAI's clients expect, and Lodestone's own."""

    id: str = Field(description="What `model` may name.")
    object: Literal["model"] = "model"
    created: int = Field(description="Seconds since 1970: the start of the service.")
    owned_by: Literal["lodestone"] = "lodestone"
    name: str = Field(description="What settings and profiles call it; kinds may share names, ids differ.")
    kind: ModelKind
    version: str = Field("", description="Vectors of two versions are never compared.")
    dim: int | None = Field(None, description="Length of its vectors.")
    takes: list[Literal["text", "picture"]] = Field(default_factory=list, description="What it can be given.")
    gives: list[Literal["embedding", "picture"]] = Field(default_factory=list, description="What it can be asked for here.")
    collection: str | None = Field(None, description="Of a space: the collection that holds its vectors.")
    enabled: bool = Field(True, description="Of a generator: whether it may be asked.")


class ModelList(Model):
    """Lists all models of the service."""

    object: Literal["list"] = "list"
    data: list[ModelInfo]


class EmbeddingsRequest(Model):
    """Requests vectors of texts, and as an extension of pictures: `data:image/…;base64,…`."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"model": "bridge", "input": ["a boat on a lake", "two dogs"]}]},
    )

    model: str = Field(min_length=1, max_length=300, description="Id of a space or a text encoder, see /v1/models.")
    input: Input | Annotated[list[Input], Field(min_length=1, max_length=MAX_INPUTS)] = Field(
        description=f"One, or up to {MAX_INPUTS}; texts of at most {MAX_TEXT_CHARS} characters."
    )
    encoding_format: Literal["float", "base64"] = Field("float", description="base64: little-endian float32.")
    dimensions: int | None = Field(None, ge=1, description="Must be the model's own, if given.")
    user: str | None = Field(None, max_length=200, description="Not used.")


class Embedding(Model):
    """Holds one vector, L2-normalised."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingsUsage(Model):
    """Holds the usage that OpenAI's clients expect. Nothing is charged by it."""

    prompt_tokens: int = Field(description="Words and marks of the texts: an estimate.")
    total_tokens: int


class EmbeddingList(Model):
    """Lists vectors in the order of the inputs."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: EmbeddingsUsage


class DrawingRequest(Model):
    """Requests pictures drawn by a generator."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"prompt": "a red bicycle leaning against a white wall", "n": 1}]},
    )

    prompt: str = Field(min_length=1, max_length=MAX_QUERY_CHARS, description="What to draw.")
    model: str | None = Field(None, max_length=300, description="Id of a generator; default: the first that draws.")
    n: int = Field(1, ge=1, le=MAX_PICTURES, description="Pictures at most; fewer may come.")
    size: str | None = Field(
        None, pattern=r"^(auto|[1-9][0-9]{1,3}x[1-9][0-9]{1,3})$", description="`auto`, or the engine's own, e.g. 256x256."
    )
    response_format: Literal["b64_json"] = Field("b64_json", description="Pictures are sent, not kept to be fetched.")
    output_format: Literal["png", "jpeg", "webp"] = "png"
    seed: int = Field(0, ge=0, le=2**31 - 1, description="The same again gives the same pictures, where the engine can.")
    budget: float | None = Field(None, ge=0, description="Most that it may cost; default: setting.")
    deadline_ms: int | None = Field(None, ge=1, le=600_000, description="Time allowed; default: setting.")
    user: str | None = Field(None, max_length=200, description="Not used.")


class Drawing(Model):
    """Holds one drawn picture."""

    b64_json: str = Field(description="The file, base64.")
    width: int
    height: int


class DrawingList(Model):
    """Holds the drawn pictures."""

    created: int = Field(description="Seconds since 1970.")
    data: list[Drawing]
    model: str
    output_format: Literal["png", "jpeg", "webp"]
    size: str = Field(description="Of the first picture, e.g. 256x256.")
    cost: float = Field(0.0, description="What the engine charged, in the unit of its setting.")
    warnings: list[str] = Field(default_factory=list)


class OpenAIError(BaseModel):
    """Describes an error as OpenAI's clients read it, in the member `error` of a problem."""

    model_config = ConfigDict(frozen=True)

    message: str
    type: str
    param: str | None = None
    code: str | None = None
