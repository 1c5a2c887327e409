"""Which routes make and end API keys? Those of whoever administers the service."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from lodestone.access.keys import ApiKey
from lodestone_schemas.access import KeyCreated, KeyInfo, KeyPage, KeyRequest, KeyRotation, Scope
from lodestone_schemas.api import MAX_LIMIT
from lodestone_serve.auth.principal import Seen, needs
from lodestone_serve.http.pages import MAX_LIST_OFFSET

_KeyId = Annotated[str, Path(max_length=32)]


def keys_router() -> APIRouter:
    """Routes of keys."""
    router = APIRouter(prefix="/v1/keys", tags=["keys"], dependencies=[needs(Scope.ADMIN)])

    @router.get("", response_model=KeyPage)
    async def keys(
        services: Seen,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 50,
        offset: Annotated[int, Query(ge=0, le=MAX_LIST_OFFSET)] = 0,
    ) -> Response:
        """Keys without their secrets, newest first; also those that are not valid any more."""
        found = await asyncio.to_thread(services.key_store().keys, offset, limit + 1)
        infos = [key.info() for key in found[:limit]]
        return _json(KeyPage(keys=infos, next_offset=offset + limit if len(found) > limit else None))

    @router.post("", response_model=KeyCreated, status_code=201)
    async def create_key(services: Seen, body: KeyRequest) -> Response:
        """Make a key. Its secret is in this answer, and nowhere else."""
        key, written = ApiKey.new(body)
        await asyncio.to_thread(services.key_store().add_key, key)
        return _json(KeyCreated(key=key.info(), secret=written), 201)

    @router.post("/{key_id}/rotate", response_model=KeyCreated, status_code=201)
    async def rotate_key(services: Seen, key_id: _KeyId, body: KeyRotation) -> Response:
        """Put a new key in a key's place; the old one stays valid for a while, so that nothing stops meanwhile."""
        until = datetime.now(UTC) + timedelta(seconds=body.overlap_s)
        key, written = await asyncio.to_thread(lambda: services.key_store().rotate_key(key_id, until=until))
        return _json(KeyCreated(key=key.info(), secret=written), 201)

    @router.delete("/{key_id}", response_model=KeyInfo)
    async def revoke_key(services: Seen, key_id: _KeyId) -> Response:
        """End a key; in force everywhere within five seconds."""
        return _json((await asyncio.to_thread(services.key_store().revoke_key, key_id)).info())

    return router


def _json(message: KeyPage | KeyCreated | KeyInfo, status: int = 200) -> Response:
    return Response(content=message.model_dump_json(), status_code=status, media_type="application/json")
