"""Route that unlocks the service's pages for the user of its machine, by a code that counts once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lodestone.config.home import Home
from lodestone.errors import ForbiddenError
from lodestone.home.unlocking import redeem
from lodestone_schemas.access import Pass, UnlockRequest
from lodestone_serve.auth.passes import UnlockPasses
from lodestone_serve.routes.threads import in_thread


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
        return Response(made.model_dump_json(), media_type="application/json", headers={"Cache-Control": "no-store"})

    return router
