"""Where does a home keep what, and may this version of Lodestone use it?

A home is one folder with all state of one user's collection. Two homes never meet, also where they keep their vectors on one
server: each has an id. Only converted models are shared.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lodestone import __version__
from lodestone.errors import ConfigurationError, HomeVersionError, OutOfSpaceError

if TYPE_CHECKING:
    from lodestone.config.settings import Settings

HOME_FORMAT = 1  # raised when an older Lodestone could misread what a newer one wrote
_MARKER = "home.json"
_ID = "id"
_MARKING_SECONDS = 30.0  # writing the marker takes milliseconds; a `Timeout` is an OSError


@dataclass(frozen=True, slots=True)
class Home:
    """Paths inside one home. Nothing is created before `prepare`."""

    path: Path

    @property
    def marker(self) -> Path:
        """Says which format and which id the home has."""
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
    def guides(self) -> Path:
        """Guides that were drawn, with small pictures: a cache."""
        return self.path / "guides"

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

    @property
    def id(self) -> str:
        """Random and fixed for the home's life: what is kept outside the folder bears it. A copied folder has the same one.

        The home gets it with its catalog (`settle`); folders that share a catalog on a server share its id.

        Raises:
            ConfigurationError: there is no home yet, or its marker is damaged.
        """
        found = self._marked().get(_ID)
        if not isinstance(found, str) or not (found.isascii() and found.isalnum()):
            raise ConfigurationError(
                f"{str(self.marker)!r} has no usable id: {found!r}",
                hint="remove the id from the file; the next command makes one",
            )
        return found

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
        with self._writing():
            for folder in (self.path, self.embeddings, self.store, self.thumbnails, self.artifacts, self.logs):
                folder.mkdir(parents=True, exist_ok=True)
            with self._marking():
                if not self.exists():
                    self._mark({"format": HOME_FORMAT, "written_by": __version__})

    def has_id(self) -> bool:
        """Whether it was settled whose folder this is."""
        return _ID in self._marked()

    def settle(self, home_id: str) -> str:
        """Give a prepared home this id unless it has one; returns the one it has then.

        Raises:
            ConfigurationError: the id that is there is damaged, or the folder cannot be written.
            OutOfSpaceError: the disk is full.
        """
        if not self.has_id():
            with self._writing(), self._marking():  # of two processes, the second must not give the home another id
                marked = self._marked()
                if _ID not in marked:
                    self._mark({**marked, _ID: home_id})
        return self.id

    def adopt(self, home_id: str | None) -> None:
        """Take the place of a lost home: what is kept outside the folder under its id belongs to this one now.

        Args:
            home_id: Its id; None for what the next `settle` says.

        Raises:
            ConfigurationError: that is no id.
        """
        if home_id is not None and not (home_id.isascii() and home_id.isalnum()):
            raise ConfigurationError(f"{home_id!r} is no id of a home", hint="the backup's manifest is damaged")
        with self._writing(), self._marking():
            others = {name: value for name, value in self._marked().items() if name != _ID}
            self._mark(others if home_id is None else {**others, _ID: home_id})

    @staticmethod
    def new_id() -> str:
        """An id that no other home has."""
        return uuid4().hex

    def check(self) -> None:
        """Raise `HomeVersionError` if a newer Lodestone wrote this home, `ConfigurationError` if its marker cannot be read."""
        written = self._marked()
        try:
            found, by = int(written["format"]), str(written.get("written_by", "?"))
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(error) from error
        if found > HOME_FORMAT:
            raise HomeVersionError(
                f"the home {str(self.path)!r} has format {found} (Lodestone {by}); {__version__} reads {HOME_FORMAT}",
                hint="upgrade Lodestone, or set LODESTONE_HOME to another folder; nothing was changed",
            )

    def _marked(self) -> dict[str, Any]:
        try:
            written = json.loads(self.marker.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise self._damaged(error) from error
        if not isinstance(written, dict):
            raise self._damaged("it is not a JSON object")
        return written

    def _mark(self, content: dict[str, Any]) -> None:
        temporary = self.marker.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(content) + "\n", encoding="utf-8")
        temporary.replace(self.marker)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise OutOfSpaceError(f"no space left for the home {str(self.path)!r}", hint="free some space") from error
            raise ConfigurationError(
                f"cannot make the home {str(self.path)!r}: {error.strerror or error}",
                hint="set LODESTONE_HOME to a folder you may write",
            ) from error

    @contextmanager
    def _marking(self) -> Iterator[None]:
        """Hold the marker against other processes."""
        from filelock import FileLock

        with FileLock(self.path / f".{_MARKER}.lock", timeout=_MARKING_SECONDS):
            yield

    def _damaged(self, how: object) -> ConfigurationError:
        return ConfigurationError(
            f"{str(self.marker)!r} cannot be read: {how}", hint="the home is damaged; restore the file from a backup"
        )


def home_of(settings: Settings) -> Home:
    """The home of these settings. With a catalog on a server a new folder is one at once: what is indexed is known there.

    Raises:
        ConfigurationError: the folder cannot be made.
        OutOfSpaceError: the disk is full.
    """
    home = Home(settings.home)
    if settings.catalog_url and not settings.catalog_url.startswith("sqlite") and not home.exists():
        home.prepare()
    return home
