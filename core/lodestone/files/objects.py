"""File area in an object store: one PUT to the final key, so that an object is visible complete or not at all.

S3, Google Cloud Storage, Azure and HDFS are reached by pyarrow, all other schemes by fsspec (docs/adr/0012-object-storage.md).
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from lodestone.errors import ConfigurationError, SourceError
from lodestone.files.area import FileArea, OpenFile, StoredFile
from lodestone.files.filesystems import ARROW_SCHEMES, fsspec_of
from lodestone.files.s3 import named_authorities
from lodestone.files.urls import bare_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem

_CODE: Final = re.compile(r"AWS Error ([A-Z_]{3,})")


class ObjectArea(FileArea):
    """A file area below one prefix of a bucket, or in any other store that pyarrow or fsspec reach.

    Args:
        url: Prefix of the area, for example `s3://bucket/prefix?endpoint_override=127.0.0.1:9000&scheme=http`.

    Raises:
        ConfigurationError: the URL holds credentials.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        shown = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
        if (bare := bare_of(url)) is not None:
            raise ConfigurationError(
                f"the URL of {bare!r} holds credentials",
                hint="set them in the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS",
            )
        self._url = url
        self._shown = shown.rstrip("/")
        self._lock = threading.Lock()
        self._opened: tuple[FileSystem, str] | None = None
        self._process = 0

    def __repr__(self) -> str:
        return f"ObjectArea({self._shown!r})"

    def __reduce__(self) -> tuple[type[ObjectArea], tuple[str]]:
        return ObjectArea, (self._url,)

    @property
    def location(self) -> str:
        """Return the URL without its options."""
        return self._shown

    def write(self, path: str, content: bytes | pa.Buffer, *, durable: bool = True) -> None:  # noqa: ARG002 (it always is)
        """Write an object by one PUT, from 10 MB on by a multi-part upload, which is atomic too."""
        system, base = self._open()
        with self._reached("written"):
            fsspec_system = fsspec_of(system)
            if fsspec_system is not None:
                fsspec_system.pipe_file(f"{base}/{path}", bytes(content))
                return
            with system.open_output_stream(f"{base}/{path}") as stream:
                stream.write(content)

    def read(self, path: str) -> pa.Buffer:
        """Return an object's content by one GET."""
        system, base = self._open()
        try:
            with self._reached("read"), system.open_input_file(f"{base}/{path}") as file:
                return file.read_buffer()
        except FileNotFoundError:
            self._check_bucket()
            raise

    def open(self, path: str) -> OpenFile:
        """Open an object, which costs one request for its size; each range that is read of it is one GET."""
        system, base = self._open()
        try:
            with self._reached("read"):
                file = system.open_input_file(f"{base}/{path}")
        except FileNotFoundError:
            self._check_bucket()
            raise
        return OpenFile(file, partial(self._reached, "read"), one_at_a_time=fsspec_of(system) is not None)

    def size(self, path: str) -> int | None:
        """Return the size of an object in bytes; None when there is no such object."""
        system, base = self._open()
        with self._reached("read"):
            info = system.get_file_info(f"{base}/{path}")
        return int(info.size) if info.is_file else None

    def names(self, folder: str = "") -> tuple[list[str], list[StoredFile]]:
        """Return the prefixes and objects directly below a prefix, each sorted."""
        from pyarrow.fs import FileSelector

        system, base = self._open()
        start = f"{base}/{folder}".rstrip("/")
        with self._reached("listed"):
            infos = system.get_file_info(FileSelector(start, allow_not_found=True))
        infos = sorted(infos, key=lambda info: info.path)
        prefix = f"{folder}/" if folder else ""
        folders = [info.base_name for info in infos if not info.is_file]
        return folders, [StoredFile(f"{prefix}{info.base_name}", info.size) for info in infos if info.is_file]

    def delete(self, path: str) -> bool:
        """Delete an object, and return whether it existed."""
        system, base = self._open()
        try:
            with self._reached("changed"):
                system.delete_file(f"{base}/{path}")
        except FileNotFoundError:
            return False
        return True

    def delete_folder(self, folder: str) -> None:
        """Delete all objects below a prefix. A missing prefix is no error."""
        system, base = self._open()
        with suppress(FileNotFoundError), self._reached("changed"):
            system.delete_dir(f"{base}/{folder}")

    def sweep(self, folder: str) -> int:  # noqa: ARG002 (killed writers leave nothing)
        """Return 0: an interrupted PUT leaves no object behind."""
        return 0

    def _open(self) -> tuple[FileSystem, str]:
        with self._lock:
            if self._opened is None or self._process != os.getpid():  # connections do not survive a fork
                with self._reached("opened"):
                    self._opened = _open(self._url)
                self._process = os.getpid()
            return self._opened

    def _check_bucket(self) -> None:
        """Raise an error when the bucket is missing: its files must not look missing one by one, since those are made again."""
        system, base = self._open()
        with self._reached("read"):
            if not system.get_file_info(base.partition("/")[0]).type:
                raise OSError("AWS Error NO_SUCH_BUCKET: the bucket does not exist")

    @contextmanager
    def _reached(self, done: str) -> Iterator[None]:
        """Raise `SourceError` for a store that cannot be reached or refuses, so that callers do not see a damaged file."""
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:  # Arrow's own errors are ValueErrors
            reason = _CODE.search(str(error))
            word = reason.group(1).lower().replace("_", " ") if reason else f"{type(error).__name__}: {error}"
            raise SourceError(
                f"{self._shown!r} cannot be {done}: {word}",
                hint="check the bucket, its permissions and the credentials in the environment, and run the command again; "
                "what was finished is kept",
                location=self._shown,
                reason=word,
            ) from error


def _open(url: str) -> tuple[FileSystem, str]:
    from pyarrow import fs

    parts = urlsplit(url)
    if parts.scheme in ARROW_SCHEMES:
        query = dict(parse_qsl(parts.query))
        if parts.scheme == "s3":
            query.setdefault("allow_delayed_open", "true")  # otherwise every small file becomes a multi-part upload
            if authorities := named_authorities():
                query.setdefault("tls_ca_file_path", authorities)
        system, base = fs.FileSystem.from_uri(urlunsplit(parts._replace(query=urlencode(query))))
    else:
        import fsspec  # type: ignore[import-untyped]

        inner, base = fsspec.core.url_to_fs(url)
        system = fs.PyFileSystem(fs.FSSpecHandler(inner))
    return system, str(base).rstrip("/")
