"""The boundaries of a home's roots: what may be opened of each, by the settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lodestone.files.beneath import Boundaries, Enclosure
from lodestone.files.urls import is_url
from lodestone.sources.locators import FOLDER, base_of

if TYPE_CHECKING:
    from lodestone.catalog.records import Root
    from lodestone.config.settings import Settings


def boundaries_of(settings: Settings) -> Boundaries:
    """Return the boundaries that the settings draw: `serve.index_folders`, and `index.follow_symlinks`."""
    folders = {os.path.abspath(folder) for folder in settings.serve.index_folders.values()}  # noqa: PTH100 - text
    return Boundaries(tuple(sorted(folders)), settings.index.follow_symlinks)


def enclosure_of(root: Root, boundaries: Boundaries) -> Enclosure | None:
    """Return what everything of a root must lie in; None where nothing limits it, as for object stores."""
    base = base_of(root)
    return None if is_url(base) else boundaries.around(base, is_folder=root.kind == FOLDER)
