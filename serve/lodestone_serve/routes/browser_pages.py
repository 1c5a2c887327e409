"""Routes for people who open the service in a browser: to search, to manage, and to read an API reference without other sites.

The reference is Swagger UI over the service's own /openapi.json. Its files are in `lodestone_serve/assets`. The pages hold no
inline script or style, so their content security policy allows neither, and no `eval`.
"""

from __future__ import annotations

import gzip
import html
import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lodestone import __version__
from lodestone.errors import NotFoundError
from lodestone_serve.responses.pages import is_known
from lodestone_serve.routes.search_page import MANAGEMENT_PAGE, SEARCH_PAGE, page_text, takes_gzip
from lodestone_serve.routes.threads import in_thread

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Of the pages. Images may be `data:` (icons in Swagger UI's style sheet) and `blob:` (pictures that were asked for there)."""

_LINKS: Final = {"reference": "/docs", "openapi": "/openapi.json", "readiness": "/readyz", "search": "/v1/search?q=WORDS"}
_WHAT: Final = "Lodestone finds pictures by what you mean."
_MANUAL: Final = "the folder docs of Lodestone's source code"
_CACHE: Final = "private, max-age=3600"
_JAVASCRIPT: Final = "text/javascript; charset=utf-8"
_CSS: Final = "text/css; charset=utf-8"
_SMALL_BYTES: Final = 10_000  # below, compression is not worth its headers
_HOST: Final = re.compile(r"[\w.:\[\]-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that the pages load.

    Attributes:
        place: Path inside `lodestone_serve/assets`.
        media_type: What it is served as.
        sha256: Digest of somebody else's file, hexadecimal; "" for Lodestone's own.
    """

    place: str
    media_type: str
    sha256: str = ""


ASSETS: Final = {
    "pages.css": Asset("pages.css", _CSS),
    "icon.svg": Asset("icon.svg", "image/svg+xml"),
    "reference.js": Asset("reference.js", _JAVASCRIPT),
    "swagger-ui.css": Asset(
        "swagger-ui/swagger-ui.css", _CSS, "5ed08757e53da3e026d6cbecc61fe5d43585c9560b302d534ad56692519a273d"
    ),
    "swagger-ui-bundle.js": Asset(
        "swagger-ui/swagger-ui-bundle.js", _JAVASCRIPT, "e6a898692f2d768e807c3ba4626068a69a2c5dd960dd6c76f3e4d3a3de180af2"
    ),
}
"""Name in the address -> the file."""


def browser_router() -> APIRouter:
    """Return the router of the pages and their files."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def landing(request: Request) -> Response:
        """Show the search page, or say what this service is as JSON or plain text, whichever the client prefers."""
        kind = _preferred(request.headers.get("accept", ""))
        headers = {"Vary": "Accept"}
        if kind == "text/html":
            return _page(await _filled(SEARCH_PAGE, request), headers)
        if kind == "application/json":
            told = {"service": "lodestone", "version": __version__, "about": _WHAT, "links": _LINKS, "manual": _MANUAL}
            return Response(json.dumps(told, ensure_ascii=False), media_type=kind, headers=headers)
        lines = [f"{_WHAT} Version {__version__}.", "", *(f"{name + ':':<12}{link}" for name, link in _LINKS.items())]
        return Response("\n".join([*lines, f"{'manual:':<12}{_MANUAL}", ""]), media_type="text/plain", headers=headers)

    @router.get("/manage")
    async def management(request: Request) -> Response:
        """Show the pages that manage corpora, runs, tags, trust, models and keys."""
        return _page(await _filled(MANAGEMENT_PAGE, request), {})

    @router.get("/docs")
    async def reference() -> Response:
        """Show the reference of the API."""
        return _page(_text("reference.html"), {})

    @router.get("/docs/assets/{name}")
    async def asset(name: str, request: Request) -> Response:
        """Return a file that the pages load."""
        found = ASSETS.get(name)
        if found is None:
            raise NotFoundError(f"there is no file {name[:200]!r} of the pages", hint="see /docs")
        tag = f'"{__version__}-{found.sha256[:16]}"'
        headers = {"ETag": tag, "Cache-Control": _CACHE, "Vary": "Accept-Encoding"}
        if is_known(request, tag):
            return Response(status_code=304, headers=headers)
        content = await in_thread(_content, found.place)
        if len(content) >= _SMALL_BYTES and takes_gzip(request.headers):
            content = await in_thread(_compressed, found.place)
            headers["Content-Encoding"] = "gzip"
        return Response(content, media_type=found.media_type, headers=headers)

    return router


async def _filled(name: str, request: Request) -> str:
    """Return a page of `lodestone_web` with the version and the address that its reader sees."""
    page = await in_thread(page_text, name)
    for mark, text in {"{version}": __version__, "{origin}": _origin(request)}.items():
        page = page.replace(mark, html.escape(text))
    return page


def _page(content: str, headers: dict[str, str]) -> Response:
    given = {**headers, "Content-Security-Policy": CONTENT_SECURITY_POLICY}
    return Response(content, media_type="text/html", headers=given)


def _preferred(accept: str) -> str:
    """Return the media type that a client asks for by name first; plain text for one that names none, such as curl."""
    named = (part.partition(";")[0].strip().lower() for part in accept.split(","))
    return next((kind for kind in named if kind in {"text/html", "application/json", "text/plain"}), "text/plain")


def _origin(request: Request) -> str:
    """Return scheme and host as the client wrote them, for examples; the guards in front have checked the host."""
    host = request.headers.get("host", "")
    scheme = "https" if request.headers.get("x-forwarded-proto") == "https" else request.url.scheme
    return f"{scheme}://{host if _HOST.fullmatch(host) else 'localhost'}"


@cache
def _content(place: str) -> bytes:
    return resources.files("lodestone_serve").joinpath("assets", *place.split("/")).read_bytes()


@cache
def _compressed(place: str) -> bytes:
    return gzip.compress(_content(place), 6, mtime=0)


def _text(place: str) -> str:
    return _content(place).decode()
