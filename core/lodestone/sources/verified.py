"""Local files that are sent to somebody: only the bytes whose hash is known, however long sending takes.

The file is opened once and its content compared with the hash before the first byte is sent. Small content is kept in memory
and sent from there. A larger file is read twice, from the same descriptor: the digests of its parts are kept, 32 bytes for each
MiB, and each part is compared with its digest before it is sent. So a file that is exchanged or written to meanwhile is
never sent, and memory stays small. (Decoding it again would cost more, and would send bytes that were not decoded.)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import BinaryIO, Final

from lodestone.errors import ImageError, ImageTooLargeError
from lodestone.files.beneath import Enclosure, open_file
from lodestone.files.tokens import hash_bytes
from lodestone.imaging.failures import unreadable

PART_BYTES: Final = 1 << 20
WHOLE_BYTES: Final = 8 << 20
"""Most bytes of a file that are held in memory to be sent."""

MOST_BYTES: Final = 1 << 30
"""Size of the largest file that is sent: all of it is read before the first byte goes out."""


class VerifiedFile:
    """A file that is open and had the expected content; what is read of it is compared once more."""

    def __init__(self, file: BinaryIO, digests: list[bytes], size: int) -> None:
        self._file = file
        self._digests = digests
        self.size = size

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._file.close()

    def file(self) -> BinaryIO:
        """Return the open file at its beginning, for a reader that needs no comparison. The reader closes it."""
        self._file.seek(0)
        return self._file

    def parts(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yield the bytes from `start` to before `stop`, in order, and close the file at the end.

        Raises:
            ImageError: the file has been written to since it was opened; what was yielded is right, and nothing follows.
        """
        import blake3

        end = self.size if stop is None else min(stop, self.size)
        with self._file:
            for number in range(start // PART_BYTES, -(-end // PART_BYTES)):
                offset = number * PART_BYTES
                part = os.pread(self._file.fileno(), PART_BYTES, offset)
                if blake3.blake3(part).digest() != self._digests[number]:
                    raise _changed()
                yield part[max(start - offset, 0) : end - offset]


def open_verified(path: str, *, content: str, size: int, within: Enclosure | None = None) -> bytes | VerifiedFile:
    """Return a file's bytes, or the open file where it is large, if its content is what it should be.

    Args:
        path: The file.
        content: BLAKE3 of its content, 64 hexadecimal digits.
        size: Its size in bytes.
        within: The folder that it must lie in; None for none.

    Raises:
        ImageTooLargeError: it is larger than `MOST_BYTES`.
        ImageError: it is missing, cannot be read, lies outside the folder, or has other content.
    """
    if size > MOST_BYTES:
        raise ImageTooLargeError(
            f"the file has {size >> 20:,} MB; at most {MOST_BYTES >> 20:,} MB are sent", hint="copy it from its folder"
        )
    try:
        with ExitStack() as stack:
            file = stack.enter_context(open_file(path, within))
            if os.fstat(file.fileno()).st_size != size:
                raise _changed()
            if size <= WHOLE_BYTES:
                data = file.read(size + 1)
                if hash_bytes(data) != content:
                    raise _changed()
                return data
            whole, digests = _hashed(file, size)
            if whole != content:
                raise _changed()
            stack.pop_all()
            return VerifiedFile(file, digests, size)
    except OSError as error:
        raise unreadable(error) from error


def _hashed(file: BinaryIO, size: int) -> tuple[str, list[bytes]]:
    """Return the hash of a file and the digests of its parts; no more is read than a file of `size` bytes has."""
    import blake3

    whole, digests = blake3.blake3(), list[bytes]()
    for offset in range(0, size + 1, PART_BYTES):
        part = os.pread(file.fileno(), PART_BYTES, offset)
        whole.update(part)
        digests.append(blake3.blake3(part).digest())
    return whole.hexdigest(), digests


def _changed() -> ImageError:
    return ImageError("its content is not what was indexed", hint="run the index again", reason="file_changed")
