"""What a home still holds of removed pictures, and until when: read from the catalog and small files, not from the store."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from lodestone.durable_files import write_atomically
from lodestone.store.deleted_points import COLLECTIONS_DIR, read_deleted

if TYPE_CHECKING:
    from lodestone.config.home import Home
    from lodestone.indexing.resources import StoredHome

BACKUPS: Final = "backups.json"
_MB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Remains:
    """What is left of removed pictures, and of those whose files are gone.

    Attributes:
        slices: Number of slices whose old files wait to be deleted, and `slice_bytes` their size.
        slice_bytes: Size of these files, in bytes.
        store_bytes: About how many bytes of the embedded store's files hold deleted points.
        gone: Number of pictures that are kept because their files may come back.
        gone_until: When the first of them is removed, aware; None if that is at the next run.
        backups: Backups that were made of this home; those made before a removal hold what was removed.
    """

    slices: int = 0
    slice_bytes: int = 0
    store_bytes: int = 0
    gone: int = 0
    gone_until: datetime | None = None
    backups: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        """Return a sentence for each thing that remains."""
        said = []
        if self.slices:
            said.append(
                f"{self.slice_bytes / _MB:,.1f} MB of removed pictures remain in {self.slices:,} slices until no other run is "
                "going on; the next `lodestone index` or `lodestone embeddings compact` deletes them"
            )
        if self.store_bytes:
            said.append(
                f"{self.store_bytes / _MB:,.1f} MB of removed pictures remain in the vector store until its graphs are made "
                "anew; an index run does that a week after the removal"
            )
        if self.gone:
            until = f"until {self.gone_until.astimezone():%Y-%m-%d}" if self.gone_until else "until the next index run"
            pictures = (
                "1 picture whose file is gone is" if self.gone == 1 else f"{self.gone:,} pictures whose files are gone are"
            )
            said.append(f"{pictures} kept {until}, in case they come back; `lodestone forget --gone` removes them now")
        return said


def remains_of(resources: StoredHome) -> Remains:
    """Return what an opened home still holds of removed pictures.

    Raises:
        CatalogError: the catalog cannot be read.
    """
    catalog, home = resources.catalog, resources.home
    slices, size = catalog.bytes_to_erase()
    gone, since = catalog.count_gone()
    collections = home.store / COLLECTIONS_DIR
    folders = [entry for entry in collections.iterdir() if entry.is_dir()] if collections.is_dir() else []
    return Remains(
        slices=slices,
        slice_bytes=size,
        store_bytes=sum(read_deleted(folder).bytes for folder in folders),
        gone=gone,
        gone_until=since + timedelta(days=resources.settings.index.keep_gone_days) if since is not None else None,
        backups=known_backups(home),
    )


def known_backups(home: Home) -> tuple[str, ...]:
    """Return the locations to which this home was backed up, sorted."""
    try:
        return tuple(sorted(json.loads((home.path / BACKUPS).read_text(encoding="utf-8"))))
    except (OSError, ValueError):
        return ()


def note_backup(home: Home, location: str) -> None:
    """Note that this home was backed up to a location; a note that cannot be written is left out."""
    known = {*known_backups(home), location}
    with suppress(OSError):
        write_atomically(home.path / BACKUPS, json.dumps(sorted(known), indent=1))
