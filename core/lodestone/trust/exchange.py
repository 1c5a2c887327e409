"""Export and import format of trust: JSON that another home can take over, validated first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lodestone.errors import InvalidRequestError
from lodestone.trust.events import to_json
from lodestone.trust.topics import WORDS, Topic

FORMAT: Final = 1
_Number = Annotated[float, Field(allow_inf_nan=False)]
_Weight = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
_Name = Annotated[str, Field(min_length=1, max_length=200)]


class _TopicFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    topic: _Name
    encoder: str | None = Field(None, max_length=200)
    centre: list[_Number] | None = Field(None, min_length=1, max_length=65_536)
    queries: int = Field(0, ge=0, lt=2**31)
    weights: dict[_Name, _Weight] = Field(max_length=1_000)
    words: list[Annotated[str, Field(max_length=1_000)]] = Field(default_factory=list, max_length=WORDS)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.topic != " ".join(self.topic.split()):
            raise ValueError("a topic's name has single spaces between its words, and none around them")
        if (self.centre is None) != (self.encoder is None):
            raise ValueError("centre and encoder belong together")
        if self.centre is not None and not any(self.centre):
            raise ValueError("the centre is zero")
        return self


class _TrustFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1]
    topics: list[_TopicFile] = Field(max_length=1_000)


def exported(topics: Iterable[Topic]) -> dict[str, Any]:
    """Return topics as JSON; the events behind them are not exported."""
    return {"format": FORMAT, "topics": [to_json(topic) for topic in topics]}


def checked(content: object) -> list[dict[str, Any]]:
    """Return the topics of an export, after validation.

    Raises:
        InvalidRequestError: the content does not have that form; the message names the place.
    """
    try:
        topics = _TrustFile.model_validate(content).topics
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise InvalidRequestError(
            f"this is no export of trust: {place}: {first['msg']}", hint="take the output of `lodestone trust export`"
        ) from error
    names = [topic.topic for topic in topics]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise InvalidRequestError(f"the topic {duplicate!r} is there twice", hint="keep one of the two")
    return [topic.model_dump() for topic in topics]
