"""Where does a home keep what, and may this version of Lodestone use it?

A home is one folder with all state of one user's collection. Two homes never meet; only converted models are shared.
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass
from pathlib import Path

from lodestone import __version__
from lodestone.errors import ConfigurationError, HomeVersionError, OutOfSpaceError

HOME_FORMAT = 1  # raised when an older Lodestone could misread what a newer one wrote
_MARKER = "home.json"


@dataclass(frozen=True, slots=True)
class Home:
    """Paths inside one home. Nothing is created before `prepare`."""

    path: Path

    @property
    def marker(self) -> Path:
        """Says which format the home has."""
        return self.path / _MARKER

    @property
    def catalog(self) -> Path:
        """SQLite file of the catalog."""
        return self.path / "catalog.sqlite"

    @property
    def embeddings(self) -> Path:
        """Parquet slices of backbone outputs."""
        return self.path / "embeddings"

    @property
    def store(self) -> Path:
        """The embedded vector store."""
        return self.path / "store"

    @property
    def thumbnails(self) -> Path:
        """Thumbnails, by content hash."""
        return self.path / "thumbnails"

    @property
    def artifacts(self) -> Path:
        """What was learnt here: one folder a kind and version."""
        return self.path / "artifacts"

    @property
    def logs(self) -> Path:
        """Log files."""
        return self.path / "logs"

    @property
    def service(self) -> Path:
        """Address of the running service, if any."""
        return self.path / "service.json"

    def exists(self) -> bool:
        """Whether something was ever written here."""
        return self.marker.is_file()

    def prepare(self) -> None:
        """Make the folders, or check that this version may use them.

        Raises:
            HomeVersionError: a newer Lodestone wrote this home.
            ConfigurationError: the folder cannot be made or is not a home.
            OutOfSpaceError: the disk is full.
        """
        if self.exists():
            self.check()
            return
        try:
            for folder in (self.path, self.embeddings, self.store, self.thumbnails, self.artifacts, self.logs):
                folder.mkdir(parents=True, exist_ok=True)
            temporary = self.marker.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps({"format": HOME_FORMAT, "written_by": __version__}) + "\n", encoding="utf-8")
            temporary.replace(self.marker)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise OutOfSpaceError(f"no space left for the home {str(self.path)!r}", hint="free some space") from error
            raise ConfigurationError(
                f"cannot make the home {str(self.path)!r}: {error.strerror}",
                hint="set LODESTONE_HOME to a folder you may write",
            ) from error

    def check(self) -> None:
        """Raise `HomeVersionError` if a newer Lodestone wrote this home, `ConfigurationError` if its marker cannot be read."""
        try:
            written = json.loads(self.marker.read_text(encoding="utf-8"))
            found, by = int(written["format"]), str(written.get("written_by", "?"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(
                f"{str(self.marker)!r} cannot be read: {error}",
                hint="the home is damaged; restore the file from a backup",
            ) from error
        if found > HOME_FORMAT:
            raise HomeVersionError(
                f"the home {str(self.path)!r} has format {found} (Lodestone {by}); {__version__} reads {HOME_FORMAT}",
                hint="upgrade Lodestone, or set LODESTONE_HOME to another folder; nothing was changed",
            )
