"""What does every source of pictures give? A stream of candidates, each with the locator that workers read it by.

A source is a part of one root: a folder, a bucket's prefix, or tables and archives below either. It lists without holding the
list, reports what it could not look at instead of stopping, and raises `SourceError` when nothing can be listed at all.

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
"""(device, inode): names a folder however it is reached."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One candidate, as the listing showed it.

    Attributes:
        uri: Its name inside the root (see sources/uris.py).
        locator: Where it is. May hold surrogates: hand it to the operating system, print the uri.
        size: Bytes.
        mtime_ns: Last change, of the picture or of what holds it, nanoseconds since 1970-01-01T00:00:00Z.
        inode: (device, inode): the same for hard links and for one file reached over two symbolic links.
        token: 64 hexadecimal digits that name the content, where listing it told; else empty.
        position: See `ImageRecord.position`.
        captions: Texts that the source gives with it; None: to be looked for in files beside it.
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
        """Where a local file is."""
        return Path(self.locator)


@dataclass(frozen=True, slots=True)
class UnreadablePath:
    """A folder, file, table or row that could not be looked at. `code` is a failure row's."""

    uri: str
    path: Path | str
    message: str
    code: str = "unreadable"


Report = Callable[[UnreadablePath], None]


@dataclass(slots=True)
class Settled:
    """What became of the archives and tables of a listing.

    Attributes:
        listed: Listed from beginning to end.
        unchanged: As they were when they were listed last: their pictures were not listed again.
        incomplete: Uris of those that could not be read to their end: what was in them may still be there.
    """

    listed: list[Container] = field(default_factory=list)
    unchanged: list[Container] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    _kept: set[str] = field(default_factory=set, repr=False, compare=False)
    _counted: tuple[int, int] = field(default=(0, 0), repr=False, compare=False)

    def keeps(self, uri: str) -> bool:
        """Whether a picture that was not listed may not be called gone."""
        if not self.unchanged and not self.incomplete:
            return False
        counted = (len(self.unchanged), len(self.incomplete))
        if counted != self._counted:  # asked about every picture: thousands of archives are gone through once
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
            report: Told of what cannot be looked at; the listing goes on.
            reread: Also list what lies in archives and tables that have not changed.

        Raises:
            SourceError: nothing can be listed: denied, expired credentials, out of reach, not there.
            ManifestChangedError: a table or archive changed while it was read.
        """

    @abstractmethod
    def covers(self, uri: str) -> bool:
        """Whether a picture of this uri would be listed here if it were there."""

    def vanished_containers(self, known: dict[str, Container]) -> list[str]:
        """Uris of archives and tables that were known and are not there any more."""
        here = {c.uri for c in (*self.settled.listed, *self.settled.unchanged)} | set(self.settled.incomplete)
        return [uri for uri in known if uri not in here and self.covers(f"{uri}/")]
