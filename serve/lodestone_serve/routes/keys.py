"""Routes that make, list and end API keys, for whoever administers the service."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from lodestone.paging import PageRequest
from lodestone.services.keys import KeyUseCases
from lodestone_schemas.access import KeyCreated, KeyInfo, KeyPage, KeyRequest, KeyRotation
from lodestone_schemas.api import MAX_LIMIT
from lodestone_serve.auth.principal import RequestCaller
from lodestone_serve.responses.pages import MAX_LIST_OFFSET
from lodestone_serve.routes.threads import in_thread

_KeyId = Annotated[str, Path(max_length=32)]


def keys_router(use_cases: KeyUseCases) -> APIRouter:
    """Return the router of API keys."""
    router = APIRouter(prefix="/v1/keys", tags=["keys"])

    @router.get("", response_model=KeyPage)
    async def keys(
        caller: RequestCaller,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 50,
        offset: Annotated[int, Query(ge=0, le=MAX_LIST_OFFSET)] = 0,
    ) -> Response:
        """Keys without their secrets, newest first; also those that are not valid any more."""
        return _json(await in_thread(use_cases.page, PageRequest(limit, offset), caller))

    @router.post("", response_model=KeyCreated, status_code=201)
    async def create_key(caller: RequestCaller, body: KeyRequest) -> Response:
        """Make a key. Its secret is in this answer, and nowhere else."""
        return _json(await in_thread(use_cases.create, body, caller), 201)

    @router.post("/{key_id}/rotate", response_model=KeyCreated, status_code=201)
    async def rotate_key(caller: RequestCaller, key_id: _KeyId, body: KeyRotation) -> Response:
        """Put a new key in a key's place; the old one stays valid for a while, so that nothing stops meanwhile."""
        return _json(await in_thread(use_cases.rotate, key_id, body, caller), 201)

    @router.delete("/{key_id}", response_model=KeyInfo)
    async def revoke_key(caller: RequestCaller, key_id: _KeyId) -> Response:
        """End a key; in force everywhere within five seconds."""
        return _json(await in_thread(use_cases.revoke, key_id, caller))

    return router


def _json(message: KeyPage | KeyCreated | KeyInfo, status: int = 200) -> Response:
    return Response(content=message.model_dump_json(), status_code=status, media_type="application/json")
