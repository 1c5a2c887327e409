"""Problem answers that are prepared in advance, for refusals that must cost next to nothing.

An answer is the same as that of `problem_response`, but its JSON and its headers are made once for each wording, and not for
each request.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.types import Message

from lodestone.errors import LodestoneError
from lodestone_serve.policy import has_openai_errors
from lodestone_serve.responses.problems import IN_PATHS, PROBLEM_TYPE, openai_error, problem_of, retry_headers
from lodestone_serve.traffic.request_guards import protect

_PLACE: Final = "lodestone-instance"
RawHeaders = list[tuple[bytes, bytes]]


class PreparedProblem:
    """The answer to an error, for any path.

    Args:
        error: The error; its details must not name the request.
    """

    def __init__(self, error: LodestoneError) -> None:
        found = problem_of(error, instance=_PLACE)
        extended = found.model_copy(update={"error": openai_error(found).model_dump()})
        self.status = found.status
        self.code = found.code
        self._parts = _split(found.model_dump_json().encode())
        self._openai_parts = _split(extended.model_dump_json().encode())
        waits = retry_headers(found.status, found.model_extra)
        self._headers: RawHeaders = [(b"content-type", PROBLEM_TYPE.encode())]
        self._headers += [(name.lower().encode(), value.encode()) for name, value in waits.items()]

    def messages(self, path: str, *, head: bool = False) -> tuple[Message, Message]:
        """Return the ASGI messages of the answer to a request for `path`.

        Args:
            path: Path of the request, decoded.
            head: Whether it is a HEAD request, whose answer has no body.
        """
        before, after = self._openai_parts if has_openai_errors(path) else self._parts
        body = before + _instance(path) + after
        headers = [*self._headers, (b"content-length", str(len(body)).encode())]
        return (
            {"type": "http.response.start", "status": self.status, "headers": headers},
            {"type": "http.response.body", "body": b"" if head else body},
        )


@lru_cache(maxsize=8)
def protective_headers(*, https: bool) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers that every answer carries, as ASGI has them."""
    headers = MutableHeaders()
    protect(headers, https=https)
    return tuple(headers.raw)


@lru_cache(maxsize=256)
def _instance(path: str) -> bytes:
    return json.dumps(quote(path, safe=IN_PATHS)).encode()


def _split(body: bytes) -> tuple[bytes, bytes]:
    before, _, after = body.partition(json.dumps(_PLACE).encode())
    return before, after
