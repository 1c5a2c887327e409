"""API model of errors: RFC 9457 problem details."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Problem(BaseModel):
    """Describes an error as RFC 9457 problem details. `code` is stable.

    `hint` names the next step. Extension members are allowed.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    type: str = Field("about:blank", description="URI of the documentation of this kind of problem.")
    title: str
    status: int
    detail: str = ""
    instance: str = ""
    code: str
    hint: str = ""
