"""Routes of a browser's session: give a key or token once, and take it back."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lodestone.errors import InvalidRequestError
from lodestone_serve.auth.authentication import credential_of
from lodestone_serve.auth.sessions import HOLDS_S, Sessions, kind_of, removals

_MOST_CHARS: Final = 3_900  # browsers silently drop a cookie whose name, value and attributes have more than 4,096


def sessions_router(sessions: Sessions, *, asks: bool) -> APIRouter:
    """Return the router of sessions.

    Args:
        sessions: Seals what was given.
        asks: Whether anybody must say who they are; where nobody must, there is nothing to seal.
    """
    router = APIRouter(prefix="/v1/session", tags=["sessions"])

    @router.post("", status_code=204, response_class=Response)
    async def begin(request: Request) -> Response:
        """Put the key or token of this request into an HttpOnly cookie, by which pages of this service show pictures."""
        answer = Response(status_code=204)
        if asks and (credential := credential_of(request.headers)) is not None:
            name, path, tls = kind_of(request.headers, https=_https(request))
            value = sessions.seal(credential)
            if len(value) > _MOST_CHARS:
                raise InvalidRequestError(
                    f"this token has {len(credential)} characters, more than a browser keeps for a session",
                    hint="have the issuer put fewer claims into it, or use an API key",
                )
            _forget_strays(answer, request)
            answer.set_cookie(name, value, max_age=HOLDS_S, path=path, httponly=True, samesite="strict", secure=tls)
        return answer

    @router.delete("", status_code=204, response_class=Response)
    async def end(request: Request) -> Response:
        """Forget the session in this browser."""
        answer = Response(status_code=204)
        name, path, tls = kind_of(request.headers, https=_https(request))
        _forget_strays(answer, request)
        answer.delete_cookie(name, path=path, httponly=True, samesite="strict", secure=tls)
        return answer

    return router


def _https(request: Request) -> bool:
    """Return whether the service itself ends TLS."""
    return request.url.scheme == "https"


def _forget_strays(answer: Response, request: Request) -> None:
    """Have the browser forget cookies of the session's name that another program on this host has set."""
    for value in removals(request.headers, request.url.path, https=_https(request), but_own=True):
        answer.headers.append("set-cookie", value)
