"""API models of a batch of searches: one question per line, one answer per line, in the order in which answers are ready."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from lodestone_schemas.base import Model
from lodestone_schemas.problems import Problem
from lodestone_schemas.searching import SearchRequest, SearchResponse


class BatchLine(SearchRequest):
    """Describes one question of a batch."""

    id: str | None = Field(None, max_length=200, description="Comes back with the answer; need not be unique.")

    def search(self) -> SearchRequest:
        """Return the question without its id."""
        return SearchRequest.model_validate(self.model_dump(exclude={"id"}, exclude_unset=True))


class BatchAnswer(Model):
    """Holds the answer to one line, or the reason why there is none."""

    line: int = Field(ge=1, description="Number of the question's line, from 1 on; blank lines count.")
    id: str | None = Field(None, description="As the line had it; null where it had none or could not be read.")
    response: SearchResponse | None = None
    problem: Problem | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.response is None) == (self.problem is None):
            raise ValueError("a line has a response or a problem")
        return self
