"""Locators of pictures that the catalog knows, computed from root, uri and position without reading anything."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote_from_bytes

from lodestone.errors import InvalidRequestError
from lodestone.files.urls import Url, is_url
from lodestone.sources.uris import BYTES_PREFIX, relative_path_of, uri_of

FOLDER: Final = "folder"
OBJECT: Final = "object"
TABLE: Final = "table"
TAR: Final = "tar"

TABLE_EXTENSIONS: Final = (".parquet", ".parq", ".pq", ".lance")
TAR_EXTENSIONS: Final = (".tar",)
LANCE: Final = ".lance"
LABELS: Final = {TAR: "**/*.tar", TABLE: "**/*.parquet"}

_HERE: Final = "./"
_FILE: Final = re.compile(r"file://(?:localhost)?(/.*)", re.DOTALL | re.IGNORECASE)
# Schemes that a table from the network may use: none of those by which fsspec reads this machine (local, zip, simplecache, …).
_REMOTE: Final = frozenset({"s3", "gs", "gcs", "abfs", "abfss", "hdfs", "http", "https"})
_INSIDE: Final = re.compile(r"(tar|row):(\d+):(.+)", re.DOTALL)


class RootPlace(Protocol):
    """The facts of a root that say where it lies; a `Root` has them."""

    @property
    def path(self) -> str:
        """Return the folder, URL or pattern of the root."""

    @property
    def kind(self) -> str:
        """Return the kind of the root: folder, object, table or tar."""


class PicturePlace(Protocol):
    """The facts of a picture that say where it lies in its root; an `ImageRecord` has them."""

    @property
    def uri(self) -> str:
        """Return the path inside the root."""

    @property
    def position(self) -> int | None:
        """Return the position inside an archive or table."""


@dataclass(frozen=True, slots=True)
class Inside:
    """A picture inside an archive or a table.

    Attributes:
        form: `tar` or `row`.
        position: Byte where the content begins, or number of the row.
        where: Path or URL of the archive or table.
    """

    form: str
    position: int
    where: str

    def __str__(self) -> str:
        return f"{self.form}:{self.position}:{self.where}"


def inside(locator: str) -> Inside | None:
    """Return the locator's parts if it names something inside an archive or a table, else None."""
    match = _INSIDE.fullmatch(locator)
    return Inside(match[1], int(match[2]), match[3]) if match else None


def container_extensions(kind: str) -> tuple[str, ...]:
    """Return the file extensions of archives or tables in a root of this kind."""
    return TAR_EXTENSIONS if kind == TAR else TABLE_EXTENSIONS if kind == TABLE else ()


def base_of(root: RootPlace) -> str:
    """Return the folder or prefix that the root's uris start from: its path without the pattern of table and archive roots."""
    label = LABELS.get(root.kind)
    if label is None:
        return root.path
    if not is_url(root.path):
        return root.path.removesuffix(label).rstrip("/") or "/"
    url = Url.stored(root.path)
    return str(replace(url, key=url.key.removesuffix(label).strip("/")))


def root_path(kind: str, base: str) -> str:
    """Return the path of a root of this kind; the inverse of `base_of`. Pictures and archives of one folder are two roots."""
    label = LABELS.get(kind)
    return base if label is None else place_below(base, label)


def place_below(base: str, relative: str) -> str:
    """Return a path or URL below a folder or prefix."""
    url = _stored_url(base)
    return str(Path(base) / relative) if url is None else str(url.join(relative))


@lru_cache(maxsize=256)
def _stored_url(base: str) -> Url | None:
    return Url.stored(base) if is_url(base) else None


def split_container(uri: str, kind: str) -> tuple[str, str]:
    """Return (uri of the archive or table, rest) of the uri of a picture inside one."""
    extensions = container_extensions(kind)
    parts = uri.split("/")
    for number, part in enumerate(parts[:-1]):
        if part.lower().endswith(extensions) and not parts[number + 1].lower().endswith(extensions):
            return "/".join(parts[: number + 1]), "/".join(parts[number + 1 :])
    return uri, ""


def container_uri(relative: str, kind: str) -> str:
    """Return the uri of an archive or table, from its name below the base; `split_container` finds it again.

    A folder may be named like an archive (`photos.parquet/year=2024/part-0.parquet`): its dots are percent-encoded then.
    """
    uri = uri_of(relative)
    if split_container(f"{uri}/-", kind)[0] == uri:
        return uri
    folders, _, name = quote_from_bytes(os.fsencode(relative), safe="/").rpartition("/")
    return f"{BYTES_PREFIX}{folders.replace('.', '%2E')}/{name}"


def uri_inside(container: str, name: str, kind: str) -> str:
    """Return the uri of a picture inside an archive or table; a folder in it may be named like an archive, too."""
    uri = f"{container}/{name}"
    return uri if split_container(uri, kind)[0] == container else f"{container}/{_HERE}{name}"


def locator_of(root: RootPlace, uri: str, position: int | None = None) -> str:
    """Return the locator of a picture from its root, uri and position."""
    if root.kind == FOLDER:
        return os.path.join(_folder(root.path), relative_path_of(uri))  # noqa: PTH118 - a Path costs ten times as much
    base = base_of(root)
    if root.kind == OBJECT:
        return place_below(base, relative_path_of(uri))
    container, rest = split_container(uri, root.kind)
    where = place_below(base, relative_path_of(container))
    if position is None:
        return target_of(where, rest.removeprefix(_HERE))
    return str(Inside("tar" if root.kind == TAR else "row", position, where))


@lru_cache(maxsize=256)
def _folder(path: str) -> str:
    return str(Path(path))


def locator_of_image(root: RootPlace, image: PicturePlace) -> str:
    """Return the locator of a picture that the catalog knows."""
    return locator_of(root, image.uri, image.position)


def target_of(table: str, value: str) -> str:
    """Return what a table's row points at: a URL, an absolute path, or a name beside the table.

    Raises:
        InvalidRequestError: the URL cannot be used or holds credentials, or a table that is itself a URL names a file of this
            machine.
    """
    url = Url.typed(value) if is_url(value) else None
    if is_url(table):
        at = Url.stored(table)
        if value.startswith("/") or value.lower().startswith("file:") or (url and url.scheme not in {*_REMOTE, at.scheme}):
            raise InvalidRequestError(
                f"a table at a URL may not point at files of this machine: {value[:200]!r}",
                hint="copy the table here if you trust it, or let it name URLs or names beside itself",
            )
        return str(url or at.parent.join(value))
    if url is not None:
        return str(url)
    if value.lower().startswith("file:"):
        local = _FILE.fullmatch(value)
        if local is None:
            raise InvalidRequestError(f"{value[:200]!r} names no file of this machine", hint="for example file:///photos/a.jpg")
        return local[1]
    return os.path.normpath(Path(table).parent / value)


def shown_place(root: RootPlace, image: PicturePlace) -> str:
    """Return the place of a picture for people: a path, a URL, or `archive.tar/member`."""
    if root.kind in {TABLE, TAR}:
        return f"{base_of(root)}/{image.uri}" if image.position is not None else locator_of_image(root, image)
    return locator_of_image(root, image)
