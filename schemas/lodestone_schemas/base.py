"""Base of all API messages: they are immutable, and an unknown member is refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MAX_QUERY_CHARS = 1_000
MAX_LIMIT = 200
MAX_OFFSET = 1_000
MAX_GUIDES = 64
MAX_PARTS = 8  # of a composed query
NEXT_CURSOR = "Give it as `cursor` for the next page, which then misses nothing and repeats nothing; null at the end."
ImageId = Annotated[str, Field(max_length=64)]  # a length limit also makes pydantic refuse lone surrogates


class Model(BaseModel):
    """Defines the settings that all messages share."""

    model_config = ConfigDict(extra="forbid", frozen=True)
