"""Identity of a picture's content: the BLAKE3 of its bytes, or for objects a token of the store's version of them.

An object's token needs no download: equal etag and size mean equal content, wherever the object is moved to. If a store gives
no etag, address, size and time replace it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Final

from lodestone.errors import ImageError
from lodestone.imaging.failures import unreadable

_CHUNK_BYTES: Final = 1 << 20


def hash_file(path: str | os.PathLike[str]) -> str:
    """Return the BLAKE3 of the file's content: 64 hexadecimal digits.

    Raises:
        ImageError: The file cannot be read (reason "missing" or "unreadable").
    """
    import blake3

    hasher = blake3.blake3()
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a str path may hold surrogates
            while chunk := file.read(_CHUNK_BYTES):
                hasher.update(chunk)
    except OSError as error:
        raise unreadable(error) from error
    return hasher.hexdigest()


def hash_bytes(data: bytes) -> str:
    """Return what `hash_file` returns for a file with this content, for callers that have read it already."""
    import blake3

    return blake3.blake3(data).hexdigest()


def object_token(etag: str, size: int, *, url: str = "", mtime_ns: int = 0) -> str:
    """Return a token of an object's content: 64 hexadecimal digits.

    Args:
        etag: The store's etag, without quotes; "" if it gives none, then `url` and `mtime_ns` are used instead.
        size: Size in bytes.
        url: URL of the object.
        mtime_ns: Last change, nanoseconds since the epoch.
    """
    facts = f"etag\0{etag}\0{size}" if etag else f"object\0{url}\0{size}\0{mtime_ns}"
    return hash_bytes(facts.encode("utf-8", "surrogatepass"))


def hash_files(paths: Iterable[str | os.PathLike[str]], *, threads: int = 2) -> Iterator[str | ImageError]:
    """Hash files in threads (reading and hashing release the GIL); results come in the order of `paths`, lazily.

    A file that cannot be read gives its `ImageError` in place of a hash, so that the other files are hashed all the same.
    """
    remaining = iter(paths)
    with ThreadPoolExecutor(max_workers=max(threads, 1)) as pool:
        pending: list[Future[str | ImageError]] = [
            pool.submit(_hash_or_error, path) for path in islice(remaining, 4 * max(threads, 1))
        ]
        while pending:
            yield pending.pop(0).result()
            pending.extend(pool.submit(_hash_or_error, path) for path in islice(remaining, 1))


def _hash_or_error(path: str | os.PathLike[str]) -> str | ImageError:
    try:
        return hash_file(path)
    except ImageError as error:
        return error
