"""Which routes manage directories? Looking is free; adding, switching, indexing and removing need the scope `index`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic import BaseModel

from lodestone_schemas.access import Scope
from lodestone_schemas.directories import (
    DirectoryAdded,
    DirectoryChange,
    DirectoryInfo,
    DirectoryPage,
    DirectoryRequest,
    JobInfo,
    JobList,
)
from lodestone_serve.auth.principal import Seen, needs
from lodestone_serve.http.pages import Fields, FieldSelection, Paged

_Chosen = Annotated[FieldSelection, Depends(Fields(DirectoryPage))]


def directories_router() -> APIRouter:
    """Routes of directories and of background indexing."""
    router = APIRouter(prefix="/v1", tags=["directories"], dependencies=[needs(Scope.SEARCH)])
    guarded = [needs(Scope.INDEX)]

    @router.get("/directories", response_model=DirectoryPage)
    async def directories(services: Seen, page: Paged, fields: _Chosen) -> Response:
        """The directories, by corpus and name."""
        return fields.answer(await services.directories(page.offset, page.limit, cursor=page.cursor))

    @router.get("/directories/{directory_id}", response_model=DirectoryInfo)
    async def directory(services: Seen, directory_id: str) -> Response:
        """One directory."""
        return _json(await services.directory(directory_id))

    @router.post("/directories", response_model=DirectoryAdded, status_code=201, dependencies=guarded)
    async def add_directory(services: Seen, body: DirectoryRequest) -> Response:
        """Add a folder of the service's machine; it is indexed in the background. One that is there already stays."""
        return _json(await services.add_directory(body), 201)

    @router.patch("/directories/{directory_id}", response_model=DirectoryInfo, dependencies=guarded)
    async def change_directory(services: Seen, directory_id: str, body: DirectoryChange) -> Response:
        """Switch a directory on or off, or its watching; in force with the next query."""
        return _json(await services.change_directory(directory_id, body))

    @router.post("/directories/{directory_id}/index", response_model=JobInfo, status_code=202, dependencies=guarded)
    async def index_directory(services: Seen, directory_id: str) -> Response:
        """Bring a directory up to date in the background."""
        return _json(await services.index_directory(directory_id), 202)

    @router.delete("/directories/{directory_id}", status_code=204, dependencies=guarded)
    async def remove_directory(services: Seen, directory_id: str) -> Response:
        """Forget a directory: vectors, thumbnails, catalog. The pictures themselves are not touched."""
        await services.remove_directory(directory_id)
        return Response(status_code=204)

    @router.get("/jobs", response_model=JobList)
    async def jobs(services: Seen) -> Response:
        """Background indexing: going on, waiting, and ended last."""
        return _json(await services.jobs())

    @router.delete("/jobs/{job_id}", response_model=JobInfo, dependencies=guarded)
    async def cancel_job(services: Seen, job_id: str) -> Response:
        """Take back what waits, or stop what goes on; what is finished is kept."""
        return _json(await services.cancel_job(job_id))

    return router


def _json(message: BaseModel, status: int = 200) -> Response:
    return Response(content=message.model_dump_json(), status_code=status, media_type="application/json")
