"""API models of people whose faces were found and named in a collection."""

from __future__ import annotations

from pydantic import Field

from lodestone_schemas.base import NEXT_CURSOR, Model


class PersonInfo(Model):
    """Describes one person of one corpus."""

    person_id: str
    corpus: str
    name: str | None = Field(None, description="Null until somebody says who it is.")
    images: int = Field(ge=0, description="Pictures that show this person.")


class PersonPage(Model):
    """Holds one page of people."""

    people: list[PersonInfo]
    next_offset: int | None = None
    next_cursor: str | None = Field(None, description=NEXT_CURSOR)
