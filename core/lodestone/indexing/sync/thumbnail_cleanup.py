"""Which thumbnails does no picture need any more? They go by content: one may serve several pictures, of several corpora."""

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
    """Remove the thumbnails of those contents that no living picture has; returns how many there were.

    One that is wanted after all (a copy of the picture is entered at this very moment) is made again when it is asked for.

    Args:
        catalog: Knows the living pictures.
        thumbnails: Where they lie.
        hashes: Contents that pictures had.
        except_corpus: Id of a corpus that is being removed: its pictures do not count as living.
    """
    removed = 0
    remaining = iter(hashes)
    while batch := list(islice(remaining, _BATCH)):
        living = catalog.living_hashes(batch, except_corpus=except_corpus)
        removed += sum(_removed(thumbnails, content) for content in batch if content and content not in living)
    return removed


def sweep_thumbnails(catalog: Catalog, thumbnails: ThumbnailStore, *, except_corpus: str = "") -> int:
    """`discard_thumbnails` for every thumbnail there is, holding a batch of names at a time."""
    return discard_thumbnails(catalog, thumbnails, thumbnails.contents(), except_corpus=except_corpus)


def _removed(thumbnails: ThumbnailStore, content: str) -> bool:
    try:
        return thumbnails.discard(content)
    except OSError as error:  # what the caller did stays done for the sake of a small file
        _log.warning("the thumbnail %s could not be removed: %s", thumbnails.key(content), error.strerror or error)
        return False
