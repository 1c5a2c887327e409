"""Record in a home that a restore or a rebuild of it has not ended, so that nobody takes a part of it for the whole.

The record is the file `unfinished.json`. It is written before anything else of the work is, and removed when the vectors are
loaded. Until then the same command goes on with the work, and every other command refuses the home.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from lodestone.durable_files import sync_folder, write_atomically
from lodestone.errors import HomeUnfinishedError

FILE: Final = "unfinished.json"
RESTORE: Final = "lodestone backup restore"
REBUILD: Final = "lodestone catalog rebuild"


class Stage(StrEnum):
    """Names how far the work is."""

    CATALOG = "catalog"  # the catalog is not complete
    VECTORS = "vectors"  # the catalog is complete, and its vectors are not loaded


@dataclass(frozen=True, slots=True)
class UnfinishedWork:
    """Work on a home that has not ended.

    Attributes:
        command: `RESTORE` or `REBUILD`.
        stage: How far it is.
        where: Location of the backup.
        snapshot: Name of the snapshot that is restored.
        home_id: Id that the restored home gets.
        settings: Whether the settings of the backup are put into force.
    """

    command: str
    stage: Stage
    where: str = ""
    snapshot: str = ""
    home_id: str = ""
    settings: bool = False

    @property
    def words(self) -> str:
        """Return the command line that goes on with the work."""
        return " ".join([self.command, *([shlex.quote(self.where)] if self.where else [])])

    @classmethod
    def of(cls, home: Path) -> Self | None:
        """Return the unfinished work on the home in this folder, or None.

        Raises:
            HomeUnfinishedError: There is some, and its record cannot be read.
        """
        path = home / FILE
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{**facts, "stage": Stage(facts["stage"])})
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise HomeUnfinishedError(
                f"a restore or rebuild of the home {str(home)!r} did not end, and {FILE} cannot be read: {error}",
                hint=f"restore the backup into another, new home; or remove the file and run `{REBUILD}` or `lodestone index`",
                home=str(home),
            ) from error

    def record(self, home: Path) -> None:
        """Write the record, durably.

        Raises:
            OSError: It cannot be written.
        """
        write_atomically(home / FILE, json.dumps(asdict(self), indent=1) + "\n")

    def end(self, home: Path) -> None:
        """Remove the record: the work is done."""
        (home / FILE).unlink(missing_ok=True)
        sync_folder(home)


def refuse_unfinished(home: Path, *, purpose: str) -> None:
    """Refuse a home on which a restore or a rebuild has not ended to all commands but the one that goes on with it.

    Args:
        home: Folder of the home.
        purpose: Command of this process.

    Raises:
        HomeUnfinishedError: There is unfinished work, of another command.
    """
    work = UnfinishedWork.of(home)
    if work is None or work.command == purpose:
        return
    doing = "being restored" if work.command == RESTORE else "being given a new catalog"
    lacks = "its catalog is not complete" if work.stage is Stage.CATALOG else "its vectors are not loaded"
    raise HomeUnfinishedError(
        f"the home {str(home)!r} is {doing}, and {lacks}",
        hint=f"wait if the command still runs; if it was interrupted, run `{work.words}` again: it goes on where it was",
        home=str(home),
        command=work.words,
    )
