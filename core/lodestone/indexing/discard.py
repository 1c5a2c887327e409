"""Which thumbnails does no picture need any more? They go by content: one may serve several pictures, of several corpora."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from lodestone.catalog.catalog import Catalog
from lodestone.imaging.thumbnails import THUMBNAIL_SUFFIX, ThumbnailStore

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
        removed += sum(_unlink(thumbnails.path(content)) for content in batch if content and content not in living)
    return removed


def sweep_thumbnails(catalog: Catalog, thumbnails: ThumbnailStore, *, except_corpus: str = "") -> int:
    """`discard_thumbnails` for every thumbnail there is, holding a batch of names at a time."""
    return discard_thumbnails(catalog, thumbnails, _stored(thumbnails), except_corpus=except_corpus)


def _stored(thumbnails: ThumbnailStore) -> Iterator[str]:
    """Contents that have a thumbnail, a folder's names at a time. Files of other names are not ours to remove."""
    for folder in _names(thumbnails.folder):
        for name in _names(thumbnails.folder / folder):
            content = name.removesuffix(THUMBNAIL_SUFFIX)
            try:
                path = thumbnails.path(content)
            except ValueError:
                continue
            if path == thumbnails.folder / folder / name:
                yield content


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())  # all at once: files are removed while they are looked at
    except (FileNotFoundError, NotADirectoryError):  # no thumbnail was made yet; a stray file
        return []


def _unlink(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:  # what the caller did stays done for the sake of a small file
        _log.warning("the thumbnail %s could not be removed: %s", path, error.strerror)
        return False
    return True
