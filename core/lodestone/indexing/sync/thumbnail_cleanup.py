"""Removal of thumbnails that no picture needs any more.

A thumbnail is keyed by content, so pictures and corpora may share it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import islice
from typing import Final

from lodestone.catalog.catalog import Catalog
from lodestone.imaging.thumbnails import ThumbnailStore

_BATCH: Final = 1000
_log = logging.getLogger(__name__)


def discard_thumbnails(catalog: Catalog, thumbnails: ThumbnailStore, hashes: Iterable[str], *, except_corpus: str = "") -> int:
    """Remove the thumbnails of those contents that no living picture has; return how many were removed.

    If one is needed after all (a copy of the picture is entered at this moment), it is made again on request.

    Args:
        catalog: Knows the living pictures.
        thumbnails: Where the thumbnails are stored.
        hashes: Content hashes that pictures had.
        except_corpus: Id of a corpus that is being removed: its pictures do not count as living.
    """
    removed = 0
    remaining = iter(hashes)
    while batch := list(islice(remaining, _BATCH)):
        living = catalog.living_hashes(batch, except_corpus=except_corpus)
        removed += sum(_removed(thumbnails, content) for content in batch if content and content not in living)
    return removed


def sweep_thumbnails(catalog: Catalog, thumbnails: ThumbnailStore, *, except_corpus: str = "") -> int:
    """Apply `discard_thumbnails` to every stored thumbnail, with one batch of names in memory at a time."""
    return discard_thumbnails(catalog, thumbnails, thumbnails.contents(), except_corpus=except_corpus)


def _removed(thumbnails: ThumbnailStore, content: str) -> bool:
    try:
        return thumbnails.discard(content)
    except OSError as error:  # a small file that stays is no reason to fail what the caller did
        _log.warning("the thumbnail %s could not be removed: %s", thumbnails.key(content), error.strerror or error)
        return False
