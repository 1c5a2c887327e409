"""Scan scope: the part of a root that a run scans, and the uris that belong to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lodestone.catalog.records import Root
from lodestone.sources.base import FoundFile, Inode, Source
from lodestone.sources.uris import relative_path_of, uri_of


@dataclass(frozen=True, slots=True)
class ScanScope:
    """A path that a run scans: a root, or a part of one.

    Attributes:
        root: The root.
        path: The path that was asked for, absolute.
        prefix: `path` relative to the root, "" for the root itself.
        is_file: True for a single file.
        others: Paths below `path` that are roots of their own; their scopes cover them.
        vanished: True when nothing exists there any more; its pictures are gone.
        source: Lists the scope when it is no folder on disk; then `prefix` is "" for the whole root, else text that names the
            part.
    """

    root: Root
    path: Path
    prefix: str = ""
    is_file: bool = False
    others: tuple[Path, ...] = ()
    vanished: bool = False
    source: Source | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether the scope covers its whole root."""
        return not self.prefix and not self.is_file

    def uri(self, found: FoundFile) -> str:
        """Return the file's uri inside the root."""
        if self.source is not None:
            return found.uri
        if self.is_file:
            return uri_of(self.prefix)
        return uri_of(f"{self.prefix}/{relative_path_of(found.uri)}") if self.prefix else found.uri

    def covers(self, uri: str) -> bool:
        """Return whether the uri lies under the scope's path."""
        if self.source is not None:
            return self.source.covers(uri)
        return not self.prefix or relative_path_of(uri).startswith(self.prefix + os.sep)

    def leaves(self, path: Path) -> bool:
        """Return whether a file at this path belongs to another root."""
        return any(other in path.parents for other in self.others)

    def other_inodes(self) -> list[Inode]:
        """Return the inodes of the roots below the scope that exist, which a walk must not enter."""
        return [inode for other in self.others if (inode := _inode(other)) is not None]


def _inode(path: Path) -> Inode | None:
    try:
        status = path.stat()
    except OSError:  # nothing there that a walk could meet
        return None
    return status.st_dev, status.st_ino
