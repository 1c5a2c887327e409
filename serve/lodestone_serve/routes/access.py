"""Route that tells a caller what they may do, and what there is to choose from: for the service's own pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lodestone_schemas.access import AccessInfo, Scope
from lodestone_serve.auth.passes import SameMachine
from lodestone_serve.auth.principal import Asker
from lodestone_serve.responses.pages import json_answer


def access_router(same_machine: SameMachine, weights: Callable[[], Mapping[str, Mapping[str, float]]]) -> APIRouter:
    """Return the router of what a caller may do.

    Args:
        same_machine: Tells who may ask where files are.
        weights: Returns the usual weights of each composition. Blocking.
    """
    router = APIRouter(tags=["access"])

    @router.get("/v1/access", response_model=AccessInfo)
    async def access(principal: Asker, request: Request) -> Response:
        """Return what the caller may do, and which compositions there are, with the weights that are usual in each."""
        usual = await asyncio.to_thread(weights)
        info = AccessInfo(
            scopes=[scope for scope in Scope if principal.may(scope)],
            paths=same_machine.sent(request.headers),
            compositions=list(usual),
            weights={name: dict(one) for name, one in usual.items()},
        )
        return json_answer(info, {"Cache-Control": "no-store"})

    return router
