"""Routes of a browser's session: give a key or token once, take it back, and unlock by a code that counts once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lodestone.config.home import Home
from lodestone.errors import ForbiddenError, InvalidRequestError
from lodestone.home.unlocking import redeem
from lodestone_schemas.access import Pass, UnlockRequest
from lodestone_serve.auth.authentication import credential_of
from lodestone_serve.auth.passes import UnlockPasses
from lodestone_serve.auth.sessions import HOLDS_S, Sessions, kind_of, removals
from lodestone_serve.responses.pages import json_answer
from lodestone_serve.routes.threads import in_thread

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


def unlocking_router(passes: UnlockPasses, home: Callable[[], Home]) -> APIRouter:
    """Return the router that exchanges codes for passes.

    Args:
        passes: Makes them, and tells who may ask.
        home: Returns the home in which codes are offered; called at every exchange, as it is opened later.
    """
    router = APIRouter(prefix="/v1/session", tags=["sessions"])

    @router.post("/unlock", response_model=Pass)
    async def unlock(body: UnlockRequest, request: Request) -> Response:
        """Exchange the code of `lodestone serve --open` for a pass of this machine's user, on that machine alone."""
        if not passes.allowed(request.headers):
            raise ForbiddenError(
                "the service is unlocked by a code on its own machine alone, where it asks for no keys",
                hint="give a key, or the token of service.json",
            )
        if not await in_thread(redeem, home(), body.code):
            raise ForbiddenError(
                "this code was used before, or is older than two minutes",
                hint="start the service again with `lodestone serve --open`, or give the token under Manage",
            )
        token, expires = passes.make()
        made = Pass(token=token, expires_at=datetime.fromtimestamp(expires, UTC))
        return json_answer(made, {"Cache-Control": "no-store"})

    return router
