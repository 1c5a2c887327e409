"""Calls: one request and how its answer is read, apart from how it is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from lodestone_schemas.api import SearchOptions
from lodestone_schemas.searching import texts_of

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

IDEMPOTENCY_HEADER = "Idempotency-Key"
PROXY_TIMEOUT = "X-Request-Timeout-Seconds"  # Ray Serve's: no service keeps a deadline while a request waits for a replica
_PROXY_GRACE_S = 2.0  # beyond the deadline, which the service itself should keep
NDJSON = "application/x-ndjson"


class Repeat(Enum):
    """When a call may be sent again although nobody knows whether the service worked on the first one."""

    ALWAYS = "always"  # looking and searching: twice does no harm
    KEYED = "keyed"  # a write with an Idempotency-Key: the service does it once
    NEVER = "never"  # only after a refusal, or when nobody was reached


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful response, read to its end."""

    content: bytes
    headers: Mapping[str, str]

    @property
    def media_type(self) -> str:
        """The media type without parameters; "" where the response names none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request to the service.

    Attributes:
        method: As in HTTP.
        path: Below the service's URL, its parts percent-encoded.
        read: The answer as what the caller gets; raises ValueError for anything else than that.
        params: Query parameters; None values are left out.
        body: Sent as JSON, unless one of the next two says otherwise.
        in_query: Send `body` as query parameters, its filters among them.
        picture: Send a form: this as its file, `body` as its options.
        further: Further files of that form.
        lines: Send these lines instead (NDJSON).
        headers: Besides those of every request.
        repeat: When it may be sent again.
        endless: Wait for the answer as long as the service lives.
    """

    method: str
    path: str
    read: Callable[[Answer], T]
    params: Mapping[str, Any] = field(default_factory=dict)
    body: BaseModel | None = None
    in_query: bool = False
    picture: bytes | None = None
    further: Sequence[bytes] = ()
    lines: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeat: Repeat = Repeat.ALWAYS
    endless: bool = False

    @property
    def deadline_ms(self) -> int | None:
        """Milliseconds within which the caller wants the answer; None for the service's own deadline."""
        found = getattr(getattr(self.body, "options", self.body), "deadline_ms", None)
        return found if isinstance(found, int) else None

    def arguments(self, left_ms: int | None = None) -> dict[str, Any]:
        """Return the arguments for `httpx.Client.build_request`.

        Args:
            left_ms: What is left of the deadline; None: all of it.
        """
        headers = dict(self.headers)
        params = {name: value for name, value in self.params.items() if value is not None}
        given: dict[str, Any] = {"headers": headers, "params": params}
        body = self.body if left_ms is None or self.body is None else _within(self.body, left_ms)
        allowed = self.deadline_ms if left_ms is None else left_ms
        if allowed is not None:
            headers[PROXY_TIMEOUT] = f"{allowed / 1000 + _PROXY_GRACE_S:g}"
        if self.lines is not None:
            headers["Content-Type"] = NDJSON
            given["content"] = self.lines
        elif self.picture is not None:
            files = [("image", self.picture), *(("images", picture) for picture in self.further)]
            given["files"] = [(field, ("picture", picture, "application/octet-stream")) for field, picture in files]
            given["data"] = {} if body is None else {"options": body.model_dump_json(exclude_unset=True)}
        elif self.in_query and body is not None:
            chosen = body.model_dump(mode="json", exclude_none=True)
            filters = chosen.pop("filters", {})
            params |= {**filters, "where": texts_of(filters.get("where", {})), **chosen}
        elif body is not None:
            headers["Content-Type"] = "application/json"
            # A change says what it leaves as it is by leaving it out, and a refinement what it takes over.
            given["content"] = body.model_dump_json(exclude_unset=self.method == "PATCH" or isinstance(body, SearchOptions))
        return given


def _within(body: BaseModel, left_ms: int) -> BaseModel:
    options = getattr(body, "options", None)
    if isinstance(options, BaseModel):
        return body.model_copy(update={"options": options.model_copy(update={"deadline_ms": left_ms})})
    return body.model_copy(update={"deadline_ms": left_ms})


class LineSplitter:
    """Splits chunks into lines. Only a line feed ends a line: JSON strings may hold Unicode's other line separators."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes, without blank ones."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [line for line in lines if line.strip()]

    @property
    def cut(self) -> bool:
        """Whether the bytes so far end within a line."""
        return bool(self._rest.strip())


def as_model(kind: type[M]) -> Callable[[Answer], M]:
    """Return a reader of JSON as `kind`. It ignores members that this version does not know: the service may be newer."""

    def read(answer: Answer) -> M:
        return kind.model_validate_json(answer.content, extra="ignore")

    return read


def as_bytes(*kinds: str) -> Callable[[Answer], bytes]:
    """Return a reader of content whose media type begins with one of `kinds`."""

    def read(answer: Answer) -> bytes:
        if not answer.media_type.startswith(kinds):
            raise ValueError(f"expected {' or '.join(kinds)}")
        return answer.content

    return read


def as_nothing(_: Answer) -> None:
    """Read an answer without content."""
