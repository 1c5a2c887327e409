"""Routes of directories. Looking is free; adding, switching, indexing and removing need the scope `index`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import BaseModel

from lodestone.services.directories import DirectoryUseCases
from lodestone_schemas.directories import (
    DirectoryAdded,
    DirectoryChange,
    DirectoryInfo,
    DirectoryPage,
    DirectoryRelocation,
    DirectoryRequest,
    DirectorySplit,
    JobInfo,
    JobList,
)
from lodestone_serve.auth.principal import RequestCaller
from lodestone_serve.responses.pages import Fields, FieldSelection, Paged
from lodestone_serve.routes.threads import in_thread

_Chosen = Annotated[FieldSelection, Depends(Fields(DirectoryPage))]


def _add_places(router: APIRouter, use_cases: DirectoryUseCases) -> None:
    """Add the routes that say where a directory lies and what is part of it."""

    @router.post("/directories/{directory_id}/relocate", response_model=DirectoryAdded)
    async def relocate_directory(caller: RequestCaller, directory_id: str, body: DirectoryRelocation) -> Response:
        """Tell where a directory's folder is now. Its pictures keep their ids, tags and captions."""
        return _json(await use_cases.relocate(directory_id, body, caller))

    @router.post("/directories/{directory_id}/split", response_model=DirectoryInfo)
    async def split_directory(caller: RequestCaller, directory_id: str, body: DirectorySplit) -> Response:
        """Make a folder inside a directory a directory of its own, which can be switched off, watched or removed."""
        return _json(await use_cases.split(directory_id, body, caller))

    @router.delete("/directories/{directory_id}", status_code=204)
    async def remove_directory(caller: RequestCaller, directory_id: str) -> Response:
        """Forget a directory: vectors, thumbnails, catalog. The pictures themselves are not touched."""
        await use_cases.remove(directory_id, caller)
        return Response(status_code=204)


def directories_router(use_cases: DirectoryUseCases) -> APIRouter:
    """Routes of directories and of background indexing."""
    router = APIRouter(prefix="/v1", tags=["directories"])

    @router.get("/directories", response_model=DirectoryPage)
    async def directories(caller: RequestCaller, page: Paged, fields: _Chosen) -> Response:
        """The directories, by corpus and name."""
        return fields.answer(await in_thread(use_cases.page, page, caller))

    @router.get("/directories/{directory_id}", response_model=DirectoryInfo)
    async def directory(caller: RequestCaller, directory_id: str) -> Response:
        """Return one directory by its id."""
        return _json(await in_thread(use_cases.get, directory_id, caller))

    @router.post("/directories", response_model=DirectoryAdded, status_code=201)
    async def add_directory(caller: RequestCaller, body: DirectoryRequest) -> Response:
        """Add a folder of the service's machine; it is indexed in the background. One that is there already stays."""
        return _json(await in_thread(use_cases.add, body, caller), 201)

    @router.patch("/directories/{directory_id}", response_model=DirectoryInfo)
    async def change_directory(caller: RequestCaller, directory_id: str, body: DirectoryChange) -> Response:
        """Switch a directory on or off, or its watching; in force with the next query."""
        return _json(await in_thread(use_cases.change, directory_id, body, caller))

    @router.post("/directories/{directory_id}/index", response_model=JobInfo, status_code=202)
    async def index_directory(
        caller: RequestCaller,
        directory_id: str,
        retry_failed: Annotated[bool, Query(description="Also try unchanged files again that failed before.")] = False,
    ) -> Response:
        """Bring a directory up to date in the background."""
        job = await in_thread(use_cases.index, directory_id, caller, retry_failed=retry_failed)
        return _json(job, 202)

    _add_places(router, use_cases)

    @router.get("/jobs", response_model=JobList)
    async def jobs(caller: RequestCaller) -> Response:
        """Background indexing: going on, waiting, and ended last."""
        return _json(await in_thread(use_cases.jobs, caller))

    @router.delete("/jobs/{job_id}", response_model=JobInfo)
    async def cancel_job(caller: RequestCaller, job_id: str) -> Response:
        """Take back what waits, or stop what goes on; what is finished is kept."""
        return _json(await in_thread(use_cases.cancel_job, job_id, caller))

    return router


def _json(message: BaseModel, status: int = 200) -> Response:
    return Response(content=message.model_dump_json(), status_code=status, media_type="application/json")
