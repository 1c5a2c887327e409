"""Layout of a home, its id, and the check that this version of Lodestone may use it.

A home is one folder with all state of one user's collection. Every home has an id, which keeps two homes apart that store their
vectors on the same server. Only converted models are shared between homes.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from lodestone import __version__
from lodestone.durable_files import MOST_BYTES, read_small_text, write_atomically
from lodestone.errors import ConfigurationError, HomeVersionError, OutOfSpaceError

if TYPE_CHECKING:
    from lodestone.config.settings import Settings

HOME_FORMAT = 1  # raised when an older Lodestone could misread what a newer one wrote
_MARKER = "home.json"
_ID = "id"
_MOST_ID = 64  # characters
_REPAIR = (
    "the home lost its id, which names its collections on a Qdrant server: `lodestone catalog repair-home` takes it from the "
    "catalog, and `lodestone catalog repair-home BACKUP` from a backup; nothing was changed"
)
_MARKING_SECONDS = 30.0  # writing the marker takes milliseconds; a `Timeout` is an OSError


@dataclass(frozen=True, slots=True)
class Home:
    """Paths inside one home; no folder is created before `prepare`."""

    path: Path

    @property
    def marker(self) -> Path:
        """Return the path of the file that records the home's format and id."""
        return self.path / _MARKER

    @property
    def catalog(self) -> Path:
        """Return the path of the catalog's SQLite file."""
        return self.path / "catalog.sqlite"

    @property
    def embeddings(self) -> Path:
        """Return the folder of the Parquet slices with backbone outputs."""
        return self.path / "embeddings"

    @property
    def store(self) -> Path:
        """Return the folder of the embedded vector store."""
        return self.path / "store"

    @property
    def thumbnails(self) -> Path:
        """Return the folder of the thumbnails, which are named by content hash."""
        return self.path / "thumbnails"

    @property
    def guides(self) -> Path:
        """Return the folder of the guide cache, which holds generated guides with small pictures."""
        return self.path / "guides"

    @property
    def artifacts(self) -> Path:
        """Return the folder of learnt artifacts, with one subfolder for each kind and version."""
        return self.path / "artifacts"

    @property
    def logs(self) -> Path:
        """Return the folder of the log files."""
        return self.path / "logs"

    @property
    def service(self) -> Path:
        """Return the path of the file with the running service's address; it may not exist."""
        return self.path / "service.json"

    @property
    def id(self) -> str:
        """Return the home's id, which is random and never changes. Everything kept outside the folder is marked with it.

        A copied folder has the same id. The home gets its id together with its catalog (`settle`); folders that share a catalog
        on a server share its id.

        Raises:
            ConfigurationError: There is no home yet, or its marker is damaged.
        """
        home_id: Any = self._marked().get(_ID)
        if not is_home_id(home_id):
            raise ConfigurationError(
                f"{str(self.marker)!r} has no usable id: {home_id!r}",
                hint=_REPAIR,
            )
        return str(home_id)

    def exists(self) -> bool:
        """Return True if a home was created in this folder before, also if its marker was lost since."""
        return self.marker.is_file() or self._has_content()

    def _has_content(self) -> bool:
        """Return whether the folder holds what only a home has: a catalog that is not empty, or folders of embeddings."""
        with suppress(OSError):
            if self.catalog.stat().st_size > 0:
                return True
        try:
            return any(_is_uuid(entry.name) for entry in self.embeddings.iterdir())
        except OSError:
            return False

    def prepare(self) -> None:
        """Create the folders, or check that this version may use those that exist.

        Raises:
            HomeVersionError: A newer Lodestone wrote this home.
            ConfigurationError: The folder cannot be created or is not a home.
            OutOfSpaceError: The disk is full.
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
        """Return True if the home already has an id."""
        return _ID in self._marked()

    def settle(self, home_id: str) -> str:
        """Give a prepared home this id unless it has one already, and return the id that it has then.

        Raises:
            ConfigurationError: The existing id is damaged, or the folder cannot be written.
            OutOfSpaceError: The disk is full.
        """
        if not self.has_id():
            with self._writing(), self._marking():  # of two processes, the second must not give the home another id
                marked = self._marked()
                if _ID not in marked:
                    self._mark({**marked, _ID: home_id})
        return self.id

    def adopt(self, home_id: str | None) -> None:
        """Give this home the id of a lost one, so that it owns everything kept outside the folder under that id.

        Args:
            home_id: The lost home's id; None removes the id, and the next `settle` sets it.

        Raises:
            ConfigurationError: `home_id` is not a valid id.
        """
        if home_id is not None and not is_home_id(home_id):
            raise ConfigurationError(f"{home_id!r} is no id of a home", hint="the backup's manifest is damaged")
        with self._writing(), self._marking():
            others = {name: value for name, value in self._marked().items() if name != _ID}
            self._mark(others if home_id is None else {**others, _ID: home_id})

    def mark_again(self, home_id: str) -> Path | None:
        """Write a lost or damaged marker again, with this id; return where the former file is kept, if there was one.

        Raises:
            HomeVersionError: A newer Lodestone wrote this home.
            ConfigurationError: `home_id` is not a valid id, or the folder cannot be written.
            OutOfSpaceError: The disk is full.
        """
        kept = None
        with self._writing(), self._marking():
            # Also a link that leads nowhere, a folder or a pipe: what is no file of ours is put aside, not read.
            if os.path.lexists(self.marker):
                kept = self.marker.with_name(f"{_MARKER}.{datetime.now(UTC):%Y%m%dT%H%M%S}")
                if stat.S_ISREG(self.marker.lstat().st_mode) and self.marker.stat().st_size <= MOST_BYTES:
                    kept.write_bytes(self.marker.read_bytes())
            try:
                self.check()
                content = self._marked()
            except HomeVersionError:
                raise
            except ConfigurationError:
                content = {"format": HOME_FORMAT, "written_by": __version__}
            if kept is not None and not kept.exists():
                self.marker.rename(kept)
            self._mark({**content, _ID: home_id})
        return kept

    @staticmethod
    def new_id() -> str:
        """Return a random id that no other home has."""
        return uuid4().hex

    def check(self) -> None:
        """Raise `HomeVersionError` if a newer Lodestone wrote this home, `ConfigurationError` if its marker cannot be read."""
        content = self._marked()
        try:
            version, writer = content["format"], str(content.get("written_by", "?"))
        except KeyError as error:
            raise self._damaged(f"it has no {error}") from error
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise self._damaged(f"its format is {version!r}")
        if version > HOME_FORMAT:
            raise HomeVersionError(
                f"the home {str(self.path)!r} has format {version} (Lodestone {writer}); {__version__} reads {HOME_FORMAT}",
                hint="upgrade Lodestone, or set LODESTONE_HOME to another folder; nothing was changed",
            )

    def _marked(self) -> dict[str, Any]:
        try:
            content = json.loads(read_small_text(self.marker))
        except (OSError, ValueError, RecursionError) as error:
            raise self._damaged(error) from error
        if not isinstance(content, dict):
            raise self._damaged("it is not a JSON object")
        return content

    def _mark(self, content: dict[str, Any]) -> None:
        write_atomically(self.marker, json.dumps(content) + "\n")

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
        """Hold the lock of the marker file against other processes."""
        from filelock import FileLock

        with FileLock(self.path / f".{_MARKER}.lock", timeout=_MARKING_SECONDS):
            yield

    def _damaged(self, reason: object) -> ConfigurationError:
        return ConfigurationError(f"{str(self.marker)!r} cannot be read: {reason}", hint=_REPAIR)


def is_home_id(value: object) -> bool:
    """Return whether this can be the id of a home: ASCII letters and digits, which begin the names of its collections."""
    return isinstance(value, str) and value.isascii() and value.isalnum() and len(value) <= _MOST_ID


def home_of(settings: Settings) -> Home:
    """Return the home of these settings; with a catalog on a server, create its folder if it does not exist.

    A catalog on a server may already know pictures, so a new folder is a home from the start.

    Raises:
        ConfigurationError: The folder cannot be created.
        OutOfSpaceError: The disk is full.
    """
    home = Home(settings.home)
    if settings.catalog_url and not settings.catalog_url.startswith("sqlite") and not home.exists():
        home.prepare()
    return home


def _is_uuid(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False
