"""Listing of one scope's files, kept on disk in listing order, with a digest of every name in memory.

A picture may only be marked as gone once everything was listed, and a moved one is only recognised once the gone ones are
known. So a listing is read twice, while a bucket is listed once. Each name takes eight bytes of memory.
"""

from __future__ import annotations

import errno
import marshal
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from struct import Struct
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from lodestone.errors import OutOfSpaceError
from lodestone.sources.base import FoundFile
from lodestone.sources.digests import Digests

_BATCH: Final = 1000
_IN_MEMORY_BYTES: Final = 4 << 20
_LENGTH: Final = Struct("<Q")  # length of a batch, written before it: marshal itself would read a file field by field
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class Survey:
    """The listed files of one scope. A context manager: its file, which has no name on disk, is removed at the end."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 - closed in __exit__
        self._names = Digests()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._names)

    def take(self, files: Iterable[FoundFile], uri: Callable[[FoundFile], str], *, step: Callable[[int], None]) -> None:
        """Add files to the survey, batch by batch.

        Args:
            files: The listing; an error in it is raised here, and the files before it are kept.
            uri: Returns a file's name inside the root.
            step: Called after every batch with the batch's size.

        Raises:
            OutOfSpaceError: there is no space for temporary files.
        """
        batch: list[FoundFile] = []
        try:
            for file in files:
                batch.append(file)
                if len(batch) == _BATCH:
                    self._keep(batch, uri)
                    step(len(batch))
                    batch = []
        finally:
            self._keep(batch, uri)
        step(len(batch))

    def __iter__(self) -> Iterator[FoundFile]:
        self._file.seek(0)
        while head := self._file.read(_LENGTH.size):
            for row in marshal.loads(self._file.read(*_LENGTH.unpack(head))):  # noqa: S302 - written by this object
                yield FoundFile(*row)

    def batches(self, size: int) -> Iterator[list[FoundFile]]:
        """Yield the files in lists of `size`."""
        files = iter(self)
        while batch := list(islice(files, size)):
            yield batch

    def saw(self, uris: Sequence[str]) -> NDArray[np.bool_]:
        """Return which of the names were listed: (n,) bool. Two names share a digest once in 2^64 pairs."""
        return self._names.hold(uris)

    def _keep(self, batch: Sequence[FoundFile], uri: Callable[[FoundFile], str]) -> None:
        if not batch:
            return
        self._names.add(uri(file) for file in batch)
        rows = [(f.uri, f.locator, f.size, f.mtime_ns, f.inode, f.token, f.position, f.captions) for f in batch]
        data = marshal.dumps(rows)
        try:
            self._file.write(_LENGTH.pack(len(data)) + data)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise OutOfSpaceError(
                "no space left for temporary files", hint="free some space, or set TMPDIR to a folder that has some"
            ) from error
