"""Answers that send a picture's bytes, whole or one range of them, under an entity tag."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fastapi.responses import Response, StreamingResponse

from lodestone_serve.responses.pages import is_known

if TYPE_CHECKING:
    from fastapi import Request

    from lodestone.services.pictures import PictureFile
    from lodestone.sources.verified import VerifiedFile

# Private: a picture is for the one who asked. A thumbnail's bytes never change under its ETag; its id may get another picture.
_CACHE: Final = "private, max-age=3600, must-revalidate"
VARIES: Final = "Cookie, Authorization, X-API-Key"
"""What a kept picture belongs to: a browser shows it neither in the next session nor after signing out."""

# Should a browser be talked into showing the bytes as a page, nothing in it runs.
_INERT: Final = "default-src 'none'; sandbox"
_RANGE: Final = re.compile(r"\s*bytes\s*=\s*(\d{0,19})\s*-\s*(\d{0,19})\s*", re.ASCII)


def picture_response(file: PictureFile, request: Request) -> Response:
    """Return the answer to a request for a picture's bytes: 200, 206 for one range, 304 where they are known, or 416."""
    tag = f'"{file.etag}"'
    headers = {"ETag": tag, "Cache-Control": _CACHE, "Vary": VARIES, "Content-Security-Policy": _INERT}
    if is_known(request, tag):
        _close(file.source)
        return Response(status_code=304, headers=headers)
    size = len(file.source) if isinstance(file.source, bytes) else file.source.size
    headers["Accept-Ranges"] = "bytes"
    start, stop, status = 0, size, 200
    wanted = _RANGE.fullmatch(request.headers.get("range", ""))
    if wanted and wanted.group(1, 2) != ("", "") and request.headers.get("if-range", tag) == tag:
        start, stop = _bounds(wanted[1], wanted[2], size)
        if start >= stop:
            _close(file.source)
            return Response(status_code=416, headers=headers | {"Content-Range": f"bytes */{size}"})
        status, headers["Content-Range"] = 206, f"bytes {start}-{stop - 1}/{size}"
    if isinstance(file.source, bytes):
        return Response(file.source[start:stop], status, media_type=file.media_type, headers=headers)
    headers["Content-Length"] = str(stop - start)
    parts: Iterator[bytes] = file.source.parts(start, stop)
    return StreamingResponse(parts, status, media_type=file.media_type, headers=headers)


def _bounds(first: str, last: str, size: int) -> tuple[int, int]:
    """Return the first byte and the one after the last that a range names; several ranges are sent as the whole."""
    if not first:
        return max(size - int(last), 0), size
    return int(first), min(int(last) + 1 if last else size, size)


def _close(source: bytes | VerifiedFile) -> None:
    if not isinstance(source, bytes):
        source.close()
