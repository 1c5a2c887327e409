"""Which part of a root does a run look at, and which uris does it answer for?"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lodestone.catalog.records import Root
from lodestone.sources.base import FoundFile, Source
from lodestone.sources.uris import relative_path_of, uri_of


@dataclass(frozen=True, slots=True)
class ScanScope:
    """One path of a run: a root, or a part of one.

    Attributes:
        root: The root.
        path: What was asked for, absolute.
        prefix: `path` relative to the root, "" for the root itself.
        is_file: Whether it is one file.
        others: Paths below `path` that are roots of their own: left to these.
        vanished: Nothing is there any more; its pictures are gone.
        source: Lists it, where it is no folder on disk; then `prefix` is "" for all of the root, else whatever says which part.
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
        """Whether it is all of its root."""
        return not self.prefix and not self.is_file

    def uri(self, found: FoundFile) -> str:
        """The file's uri inside the root."""
        if self.source is not None:
            return found.uri
        if self.is_file:
            return uri_of(self.prefix)
        return uri_of(f"{self.prefix}/{relative_path_of(found.uri)}") if self.prefix else found.uri

    def covers(self, uri: str) -> bool:
        """Whether the uri lies under the path."""
        if self.source is not None:
            return self.source.covers(uri)
        return not self.prefix or relative_path_of(uri).startswith(self.prefix + os.sep)

    def leaves(self, path: Path) -> bool:
        """Whether a file at this path belongs to another root."""
        return any(other in path.parents for other in self.others)
