"""Contract of picture sources: each yields a stream of candidates with the locators by which workers read them.

A source is a part of one root: a folder, a bucket's prefix, or tables and archives below either. It lists without holding the
list in memory, reports what it could not read instead of stopping, and raises `SourceError` when nothing can be listed at all.

A *locator* says where a picture's bytes are, in any process and on any node: an absolute path; a URL; or `tar:OFFSET:WHERE` and
`row:NUMBER:WHERE` for pictures inside archives and tables. Locators never hold credentials: these come from the environment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lodestone.catalog.records import Container

Inode = tuple[int, int]
"""(device, inode), which identifies a folder by whatever path it is reached."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A candidate file, as the listing reported it.

    Attributes:
        uri: Name inside the root (see sources/uris.py).
        locator: Where it is. May hold surrogates: pass it to the operating system, print the uri.
        size: Size in bytes.
        mtime_ns: Last change, of the picture or of its archive or table, nanoseconds since 1970-01-01T00:00:00Z.
        inode: (device, inode): the same for hard links and for one file reached over two symbolic links.
        token: 64 hexadecimal digits that identify the content, if the listing gave them; else empty.
        position: See `ImageRecord.position`.
        captions: Texts that the source gives with it; None if they must be searched for in files beside it.
    """

    uri: str
    locator: str
    size: int
    mtime_ns: int
    inode: Inode = (0, 0)
    token: str = ""
    position: int | None = None
    captions: tuple[str, ...] | None = None

    @property
    def path(self) -> Path:
        """Return the path of a local file."""
        return Path(self.locator)


@dataclass(frozen=True, slots=True)
class UnreadablePath:
    """A folder, file, table or row that could not be read. `code` is that of a failure row."""

    uri: str
    path: Path | str
    message: str
    code: str = "unreadable"


Report = Callable[[UnreadablePath], None]


@dataclass(slots=True)
class Settled:
    """State of the archives and tables after a listing.

    Attributes:
        listed: Listed from beginning to end.
        unchanged: Not changed since they were listed last: their pictures were not listed again.
        incomplete: Uris of those that could not be read to their end: their pictures may still exist.
    """

    listed: list[Container] = field(default_factory=list)
    unchanged: list[Container] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    _kept: set[str] = field(default_factory=set, repr=False, compare=False)
    _counted: tuple[int, int] = field(default=(0, 0), repr=False, compare=False)

    def keeps(self, uri: str) -> bool:
        """Return whether a picture that was not listed must not be marked as gone."""
        if not self.unchanged and not self.incomplete:
            return False
        counted = (len(self.unchanged), len(self.incomplete))
        if counted != self._counted:  # called for every picture, so the set of archives is built once
            self._kept = {container.uri for container in self.unchanged} | set(self.incomplete)
            self._counted = counted
        parts = uri.split("/")
        return any("/".join(parts[:end]) in self._kept for end in range(1, len(parts)))


class Source(ABC):
    """A part of one root that is to be listed."""

    settled: Settled

    @abstractmethod
    def items(self, report: Report, *, reread: bool = False) -> Iterator[FoundFile]:
        """List the pictures, in no particular order.

        Args:
            report: Called with what cannot be read; the listing goes on.
            reread: Also list the content of archives and tables that have not changed.

        Raises:
            SourceError: nothing can be listed: denied, expired credentials, unreachable, missing.
            ManifestChangedError: a table or archive changed while it was read.
        """

    @abstractmethod
    def covers(self, uri: str) -> bool:
        """Return whether a picture of this uri would be listed here if it existed."""

    def vanished_containers(self, known: dict[str, Container]) -> list[str]:
        """Return the uris of archives and tables that were known and no longer exist."""
        present = {c.uri for c in (*self.settled.listed, *self.settled.unchanged)} | set(self.settled.incomplete)
        return [uri for uri in known if uri not in present and self.covers(f"{uri}/")]
