"""Repair of a home whose `home.json` was lost or damaged: its id comes from the catalog, or from a backup."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lodestone.backup.snapshots import snapshot
from lodestone.catalog.catalog import Catalog
from lodestone.config.home import Home
from lodestone.errors import CatalogError, ConfigurationError, NotFoundError

if TYPE_CHECKING:
    from lodestone.config.settings import Settings
    from lodestone.files.area import FileArea

Source = Literal["catalog", "backup", "home.json", "new"]
"""Where an id comes from."""


@dataclass(frozen=True, slots=True)
class MarkReport:
    """Result of a repair.

    Attributes:
        home: Folder of the home.
        home_id: Its id.
        source: Where the id comes from.
        kept: Where the former `home.json` is now, if there was one.
    """

    home: Path
    home_id: str
    source: Source
    kept: Path | None


def mark_home_again(settings: Settings, *, backup: FileArea | None = None, new_id: bool = False) -> MarkReport:
    """Write the marker of a home again. A home that lost its id gets another one only where nothing is named by it.

    Args:
        settings: Settings of the home.
        backup: Backup of the home, for its id where the catalog has none.
        new_id: Give the home a new id, because it is a copy of another one.

    Raises:
        NotFoundError: There is no home, or no snapshot in the backup.
        HomeVersionError: A newer Lodestone wrote the home.
        ConfigurationError: The id is not known, and collections on a server are named by it.
    """
    home = Home(settings.home)
    if not home.exists() and not settings.catalog_url:
        raise NotFoundError(f"there is no home in {str(home.path)!r}", hint="set LODESTONE_HOME, or name it with --home")
    catalog = _opened(settings, home)
    try:
        home_id, source = _chosen(settings, home, catalog, backup, new_id=new_id)
        kept = home.mark_again(home_id)
        if catalog is not None:
            catalog.set_home_id(home_id)
    finally:
        if catalog is not None:
            catalog.close()
    return MarkReport(home.path, home_id, source, kept)


def _chosen(
    settings: Settings, home: Home, catalog: Catalog | None, backup: FileArea | None, *, new_id: bool
) -> tuple[str, Source]:
    if new_id:
        return home.new_id(), "new"
    if catalog is not None and (known := catalog.known_home_id()) is not None:
        return known, "catalog"
    if backup is not None:
        return snapshot(backup).home_id, "backup"
    try:
        return home.id, "home.json"
    except ConfigurationError as error:
        if settings.store.kind == "edge":
            return home.new_id(), "new"
        raise ConfigurationError(
            f"the id of the home {str(home.path)!r} is not known: neither home.json nor the catalog has it",
            hint="name a backup (`lodestone catalog repair-home BACKUP`); or write the id into home.json as "
            '`{"format": 1, "id": "…"}`: it is the beginning of the names of its collections on the server, up to the dot',
        ) from error


def _opened(settings: Settings, home: Home) -> Catalog | None:
    """Return the catalog; None where its file is missing, empty or damaged."""
    try:
        return Catalog.open(settings.catalog_url or home.catalog, before_creating=_refuse_to_create)
    except CatalogError:
        if settings.catalog_url:
            raise
        return None


def _refuse_to_create() -> None:
    raise CatalogError("there is no catalog yet")
