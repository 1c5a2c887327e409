"""Base of all API messages: they are immutable, and an unknown member is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field

MAX_QUERY_CHARS = 1_000
MAX_LIMIT = 200
MAX_OFFSET = 1_000
MAX_GUIDES = 64
MAX_CURSOR_CHARS = 8_192
MAX_PARTS = 8  # of a composed query
MAX_SET = 32  # members of an `all`, `any` or `none` of a query
MAX_SET_IMAGES = 1_000  # pictures that one set of a request names
MAX_TAG_CHARS = 200
MAX_FIELDS = 16  # fields of parts that one request filters by
MAX_VALUES = 100  # of one such field
NEXT_CURSOR = "Give it as `cursor` for the next page, which then misses nothing and repeats nothing; null at the end."
ImageId = Annotated[str, Field(max_length=64)]  # a length limit also makes pydantic refuse lone surrogates


class Model(BaseModel):
    """Defines the settings that all messages share."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_DISPLAY: Final = "_display"


class DisplayedModel(Model):
    """Adds to a message how notebooks show it, which the client that received it decides.

    The display stands in the instance's dictionary beside the fields, as a `functools.cached_property` does. So pydantic
    leaves it out of equality, JSON and `repr`, and messages that no client received cost nothing more.
    """

    def displayed_by(self, display: Callable[[Any], str]) -> Self:
        """Show this message in notebooks as the HTML that `display` returns for it, and return the message."""
        self.__dict__[_DISPLAY] = display
        return self

    def _repr_html_(self) -> str | None:
        """Return the HTML for a notebook; None, which means plain text, where no client has set a display."""
        display = self.__dict__.get(_DISPLAY)
        return None if display is None else str(display(self))
