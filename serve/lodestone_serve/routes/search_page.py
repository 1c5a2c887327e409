"""Routes of the files of the pages for people: the modules, styles and pictures of the package `lodestone_web`.

Only files that are listed when the first one is asked for are served, so no name leads anywhere else.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.datastructures import Headers

from lodestone.errors import NotFoundError
from lodestone_serve.responses.pages import is_known
from lodestone_serve.routes.threads import in_thread

PACKAGE: Final = "lodestone_web"
SEARCH_PAGE: Final = "index.html"
MANAGEMENT_PAGE: Final = "manage.html"
_MEDIA_TYPES: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    "LICENSES": "text/plain; charset=utf-8",
}
# The modules must fit each other: browsers ask each time, and nearly always learn that nothing changed.
_CACHE: Final = "no-cache"


@dataclass(frozen=True, slots=True)
class WebFile:
    """A file of the page.

    Attributes:
        content: Its bytes.
        packed: The same, compressed by gzip.
        media_type: What it is served as.
        tag: Its entity tag.
    """

    content: bytes
    packed: bytes
    media_type: str
    tag: str


def search_page_router() -> APIRouter:
    """Return the router of the page's files."""
    router = APIRouter(include_in_schema=False)

    @router.get("/web/files/{name:path}")
    async def web_file(name: str, request: Request) -> Response:
        """Return a file that the search page loads."""
        found = (await in_thread(web_files)).get(name)
        if found is None:
            raise NotFoundError(f"there is no file {name[:200]!r} of the search page", hint="open / in a browser")
        headers = {"ETag": found.tag, "Cache-Control": _CACHE, "Vary": "Accept-Encoding"}
        if is_known(request, found.tag):
            return Response(status_code=304, headers=headers)
        if takes_gzip(request.headers):
            headers["Content-Encoding"] = "gzip"
            return Response(found.packed, media_type=found.media_type, headers=headers)
        return Response(found.content, media_type=found.media_type, headers=headers)

    return router


@cache
def web_files() -> Mapping[str, WebFile]:
    """Return the files of the page by name, as addresses have it: `vendor/preact.js`."""
    return dict(_listed(resources.files(PACKAGE), ""))


@cache
def page_text(name: str) -> str:
    """Return a page itself (`SEARCH_PAGE`, `MANAGEMENT_PAGE`), with `{version}` and `{origin}` still to be filled in."""
    return resources.files(PACKAGE).joinpath(name).read_text("utf-8")


def takes_gzip(headers: Headers) -> bool:
    """Return whether a client accepts answers that are compressed by gzip."""
    return any(part.strip().lower() == "gzip" for part in headers.get("accept-encoding", "").split(","))


def _listed(folder: Traversable, prefix: str) -> Iterator[tuple[str, WebFile]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _listed(entry, f"{prefix}{entry.name}/")
            continue
        media_type = next((kind for end, kind in _MEDIA_TYPES.items() if entry.name.endswith(end)), None)
        if media_type is not None:
            content = entry.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            yield f"{prefix}{entry.name}", WebFile(content, gzip.compress(content, 9, mtime=0), media_type, tag)
