"""The factory of file areas: a folder or a URL becomes the matching `FileArea`."""

from __future__ import annotations

from pathlib import Path

from lodestone.files.area import FileArea
from lodestone.files.local import LocalArea
from lodestone.files.objects import ObjectArea


def open_area(location: Path | str) -> FileArea:
    """Return the area at a folder or at a URL.

    No connection is made before the area is used. Credentials come from the environment only.

    Args:
        location: Path of a folder, or a URL: `s3://bucket/prefix?endpoint_override=…`, `gs://…`, any scheme that fsspec knows.

    Raises:
        ConfigurationError: the URL holds credentials, or names no bucket.
    """
    if isinstance(location, str) and "://" in location and not location.startswith("file://"):
        return ObjectArea(location)
    return LocalArea(Path(location.removeprefix("file://")) if isinstance(location, str) else location)
