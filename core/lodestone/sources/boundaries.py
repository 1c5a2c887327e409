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
    """Return the boundaries that the settings draw: `serve.index_folders`, and what `index` says of links and exclusions."""
    folders = {os.path.abspath(folder) for folder in settings.serve.index_folders.values()}  # noqa: PTH100 - text
    index = settings.index
    places = (settings.home, index.embeddings, index.thumbnails, settings.models.cache)
    return Boundaries(
        tuple(sorted(folders)),
        index.follow_symlinks,
        exclude=tuple(index.exclude),
        system_folders=index.system_folders,
        own=tuple(os.path.abspath(place) for place in places if place is not None and not is_url(str(place))),  # noqa: PTH100
    )


def enclosure_of(root: Root, boundaries: Boundaries) -> Enclosure | None:
    """Return what everything of a root must lie in; None where nothing limits it, as for object stores."""
    base = base_of(root)
    return None if is_url(base) else boundaries.around(base, is_folder=root.kind == FOLDER)
