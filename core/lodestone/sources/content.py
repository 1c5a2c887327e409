"""BLAKE3 hashes of local files, one by one or several in threads."""

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
    """Return the BLAKE3 hash of a file's content: 64 hexadecimal digits.

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


def hash_files(paths: Iterable[str | os.PathLike[str]], *, threads: int = 2) -> Iterator[str | ImageError]:
    """Hash files in threads (reading and hashing release the GIL), and yield the results lazily in the order of `paths`.

    A file that cannot be read yields its `ImageError` in place of a hash, so that one bad file does not stop the others.
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
