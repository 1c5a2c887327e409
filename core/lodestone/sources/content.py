"""BLAKE3 hashes of local files, one by one or several in threads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import BinaryIO, Final

from lodestone.errors import ImageError
from lodestone.files.beneath import Enclosure, open_file
from lodestone.files.tokens import hash_bytes
from lodestone.imaging.failures import unreadable
from lodestone.imaging.sniff import HEAD_BYTES

_CHUNK_BYTES: Final = 1 << 20

READ_WHOLE_BYTES: Final = 64 << 20
"""Larger local files are hashed in pieces and decoded from the same open file, so that no thread holds all of one in memory."""


def hash_file(path: str | os.PathLike[str], within: Enclosure | None = None) -> str:
    """Return the BLAKE3 hash of a file's content: 64 hexadecimal digits.

    Args:
        path: The file.
        within: The folder that it must lie in; None for none.

    Raises:
        ImageError: The file cannot be read (reason "missing" or "unreadable").
    """
    try:
        with open_file(path, within) as file:
            return hash_stream(file)
    except OSError as error:
        raise unreadable(error) from error


def content_of(path: str | os.PathLike[str], within: Enclosure | None = None) -> str:
    """Return what identifies a file's content: its hash, or for a large file that is no picture a hash of how it begins.

    So a disk image or a film with a picture's name is known by its first bytes, and is not read to its end.

    Raises:
        ImageError: The file cannot be read (reason "missing" or "unreadable").
    """
    try:
        with open_file(path, within) as file:
            size = os.fstat(file.fileno()).st_size
            if size > READ_WHOLE_BYTES and refusal_of(head := file.read(HEAD_BYTES)) is not None:
                return hash_bytes(b"no picture\0%d\0" % size + head)
            file.seek(0)
            return hash_stream(file)
    except OSError as error:
        raise unreadable(error) from error


def refusal_of(head: bytes) -> ImageError | None:
    """Return why a file that begins like this is no picture that can be decoded; None where it may be one."""
    from lodestone.imaging.decode import supported_format

    try:
        supported_format(head)
    except ImageError as error:
        return error
    return None


def hash_stream(file: BinaryIO) -> str:
    """Return the BLAKE3 hash of the rest of an open file: 64 hexadecimal digits."""
    import blake3

    hasher = blake3.blake3()
    while chunk := file.read(_CHUNK_BYTES):
        hasher.update(chunk)
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
