"""Resources of a home that backups and syncs both need, as a protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.config.home import Home
    from lodestone.config.settings import Settings
    from lodestone.files.area import FileArea
    from lodestone.imaging.thumbnails import ThumbnailStore


class StoredHome(Protocol):
    """Settings, catalog and files of a home; a `Runtime` provides all of them."""

    @property
    def settings(self) -> Settings:
        """Return the home's settings."""

    @property
    def home(self) -> Home:
        """Return the home's folders."""

    @property
    def embeddings(self) -> FileArea:
        """Return the area of the Parquet slices."""

    @property
    def thumbnails(self) -> ThumbnailStore:
        """Return the store of the thumbnails."""

    @property
    def catalog(self) -> Catalog:
        """Return the home's opened catalog."""

    def go_on_with_restore(self) -> None:
        """Let this process open the home although a restore of it has not ended, because it goes on with that."""
