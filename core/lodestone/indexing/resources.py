"""What is kept of a home, whoever works on it? The part of an opened home that backups and syncs both need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.config.home import Home
    from lodestone.config.settings import Settings
    from lodestone.files.area import FileArea
    from lodestone.imaging.thumbnails import ThumbnailStore


class StoredHome(Protocol):
    """Settings, catalog and files of a home; a `Runtime` has them all."""

    @property
    def settings(self) -> Settings:
        """The home's settings."""

    @property
    def home(self) -> Home:
        """The home's folders."""

    @property
    def embeddings(self) -> FileArea:
        """Where the Parquet slices are."""

    @property
    def thumbnails(self) -> ThumbnailStore:
        """Where the thumbnails are."""

    @property
    def catalog(self) -> Catalog:
        """The truth."""
