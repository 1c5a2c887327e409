"""Upkeep of the packs of thumbnails: what no picture needs leaves them, and damaged ones are found.

A thumbnail of a pack is needed while a picture of its slice has that content. Copies in other slices have packs of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lodestone.catalog.database.sql import chunks
from lodestone.catalog.records import ImageState
from lodestone.imaging.thumbnail_packs import PackName

if TYPE_CHECKING:
    from lodestone.catalog.catalog import Catalog
    from lodestone.imaging.thumbnail_packs import ThumbnailPacks
    from lodestone.imaging.thumbnails import ThumbnailStore

_META: Final = "meta"
_NEEDED: Final = (ImageState.ACTIVE, ImageState.PENDING, ImageState.FAILED)
_BATCH: Final = 1000


@dataclass(frozen=True, slots=True)
class DamagedPack:
    """A pack that is not what was written: its slice, its name, and what is wrong with it."""

    slice_id: str
    name: PackName
    problem: str


def drop_unneeded(catalog: Catalog, packs: ThumbnailPacks, corpus_id: str, *, only: Container[str] | None = None) -> int:
    """Rewrite the packs of a corpus that hold thumbnails which no picture of their slice needs; return how many those were.

    Only packs of slices that pictures have left are looked at. The caller holds the lock of the corpus.

    Args:
        catalog: Knows the slices and their pictures.
        packs: The packs.
        corpus_id: The corpus.
        only: Ids of the slices to look at; None for all.

    Raises:
        SourceError: the bucket cannot be read or written.
    """
    dropped = 0
    if not packs.has_any(corpus_id):  # as in most folders
        return dropped
    for usage in catalog.slice_usage(corpus_id):
        record = usage.record
        if (only is not None and record.slice_id not in only) or usage.kept + usage.pending >= record.rows > 0:
            continue
        needed = {image.hash for image in catalog.slice_images(record.slice_id, states=_NEEDED)}
        dropped += packs.keep(PackName(corpus_id, record.fingerprint), needed)
    return dropped


def sweep_packs(catalog: Catalog, packs: ThumbnailPacks, corpus_id: str) -> int:
    """Delete the packs of a corpus that no slice has, and return how many there were; a killed compaction leaves such packs."""
    removed = 0
    for batch in chunks(packs.names(corpus_id), _BATCH):
        _, planned = catalog.known_files(corpus_id, [], [name.fingerprint for name in batch])
        removed += sum(packs.remove(name) for name in batch if name.fingerprint not in planned)
    return removed


def damaged_packs(
    catalog: Catalog,
    thumbnails: ThumbnailStore,
    corpus_id: str,
    *,
    deep: bool = False,
    report_progress: Callable[[int], None] = lambda _done: None,
) -> Iterator[DamagedPack]:
    """Yield the packs of embedded slices that are missing, truncated or altered.

    A slice whose pictures have single thumbnails, which an older version wrote, needs no pack. In a folder there are none.

    Args:
        catalog: Knows the slices.
        thumbnails: Holds the packs.
        corpus_id: The corpus to check.
        deep: Whether to read every thumbnail. Otherwise size and index are checked, by two requests a slice.
        report_progress: Called with the number of slices checked so far.

    Raises:
        SourceError: the bucket cannot be read.
    """
    if not thumbnails.packs_slices:
        return
    for number, usage in enumerate(catalog.slice_usage(corpus_id)):
        report_progress(number)
        if _META not in usage.parts or not usage.kept:
            continue
        name = PackName(corpus_id, usage.record.fingerprint)
        found = thumbnails.packs.verify(name, deep=deep)
        if found.problem is None:
            continue
        if not found.exists and _has_singles(catalog, thumbnails, usage.record.slice_id):
            continue
        yield DamagedPack(usage.record.slice_id, name, found.problem)


def _has_singles(catalog: Catalog, thumbnails: ThumbnailStore, slice_id: str) -> bool:
    """Return whether some pictures of a slice, spread over it, have single thumbnails; true for a slice without pictures."""
    active = catalog.slice_images(slice_id, states=(ImageState.ACTIVE,))
    return all(thumbnails.has(active[place].hash) for place in {0, len(active) // 2, len(active) - 1} if active)


def forget_pack(catalog: Catalog, packs: ThumbnailPacks, damaged: DamagedPack) -> None:
    """Delete a damaged pack, so that the next index run reads its pictures again and writes it anew; no model runs."""
    packs.remove(damaged.name)
    catalog.forget_receipts(damaged.slice_id, [_META])
