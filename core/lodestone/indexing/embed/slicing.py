"""Planning of embedding work: it cuts pictures into slices and makes the task of each unfinished slice.

New slices hold `slice_rows` pictures. The first ones are smaller: a slice is kept when all of it is embedded, and a run that is
killed early would lose everything. The last few are smaller and even, so that workers finish together. A slice of this or of a
killed run is unfinished while it lacks a receipt: the catalog streams such slices.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Final, TypeVar
from uuid import uuid4

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import ImageState, Root, SliceRecord, WaitingPicture
from lodestone.embeddings.slices import fingerprint
from lodestone.files.beneath import Boundaries
from lodestone.imaging.decode import DECODER_VERSION
from lodestone.indexing.parts.registry import SliceParts
from lodestone.indexing.tasks import META_PART, SliceRow, SliceTask
from lodestone.sources.boundaries import enclosure_of
from lodestone.sources.locators import locator_of_image

_T = TypeVar("_T")

SMALL_SLICE: Final = 256  # on disks, where a file more costs little and a killed worker should lose little
LARGE_SLICE: Final = 2048  # in buckets, where each file costs a request and the catalog a row
_FEWEST_SLICES: Final = 512  # of a run with larger slices, so that many workers with several in flight still share it evenly
_TAIL_SLICES: Final = 2  # slices per worker that are distributed evenly at the end
FIRST_SLICE: Final = 32  # pictures of the first slices; about a second's work of a core with the profile `embedded`
_FIRST_SLICES: Final = 2  # slices per worker before they become twice as large
_MOST_FIRST_SLICES: Final = 16  # of one size, however many workers there are
_SLICES_A_WRITE: Final = 16


def slice_rows(wanted: int, pictures: int, *, in_bucket: bool) -> int:
    """Return how many pictures a slice holds at most.

    Args:
        wanted: The setting `index.slice_size`; 0 for the choice of this function.
        pictures: Pictures that are to be put into slices.
        in_bucket: Whether the slices' files lie in an object store.
    """
    if wanted or not in_bucket:
        return wanted or SMALL_SLICE
    return min(max(pictures // _FEWEST_SLICES, SMALL_SLICE), LARGE_SLICE)


def first_slice_rows(wanted: int, *, in_bucket: bool) -> int:
    """Return how many pictures each of the first slices holds; 0 for as many as the others.

    Args:
        wanted: The setting `index.slice_size`, which is for all slices; 0 where it is not set.
        in_bucket: Whether the slices' files lie in an object store, where each file costs a request.
    """
    return 0 if wanted or in_bucket else FIRST_SLICE


def cut(images: Iterable[_T], *, size: int, workers: int, first: int = 0) -> Iterator[list[_T]]:
    """Cut pictures into slices of at most `size`; the last few are distributed evenly over `workers`.

    Args:
        images: Pictures, in the order in which they are embedded.
        size: Most pictures of a slice.
        workers: Number of workers that share the slices.
        first: Pictures of the first slices, which become twice as large again and again up to `size`; 0 for `size` at once.
    """
    held: list[_T] = []
    growing = _growing(first or size, size, workers)
    wanted = next(growing, size)
    for image in images:
        held.append(image)
        if len(held) >= wanted * (workers * _TAIL_SLICES + 1):
            yield held[:wanted]
            del held[:wanted]
            wanted = next(growing, size)
    if not held:
        return
    count = math.ceil(len(held) / wanted)
    if count >= workers:
        count = math.ceil(count / workers) * workers
    yield from _evenly(held, count)


def _growing(first: int, size: int, workers: int) -> Iterator[int]:
    """Yield the pictures of each of the slices that are smaller than `size`: several of each number, and then of its double."""
    rows, several = first, min(workers * _FIRST_SLICES, _MOST_FIRST_SLICES)
    while rows < size:
        yield from [rows] * several
        rows *= 2


def _evenly(images: Sequence[_T], count: int) -> Iterator[list[_T]]:
    start = 0
    for number in range(count):
        end = start + (len(images) - start) // (count - number)
        yield list(images[start:end])
        start = end


def plan_slices(
    catalog: Catalog, corpus_id: str, *, size: int, workers: int, again: Container[str], run_id: str, first: int = 0
) -> int:
    """Put every pending picture of the corpus that is in no slice into a new one; return the number of new slices.

    Args:
        catalog: Read and written.
        corpus_id: The corpus.
        size: Most pictures of a slice.
        workers: Number of workers that will share the work.
        again: Pictures that are retried with the same content: their slices get different names, or the files of the first,
            failed attempt would be adopted.
        run_id: Makes those names different.
        first: Pictures of the first slices, as in `cut`.
    """
    added = 0
    slices = cut(catalog.images_without_slice(corpus_id), size=size, workers=workers, first=first)
    while chunk := list(islice(slices, _SLICES_A_WRITE)):
        catalog.add_slices([_planned(corpus_id, images, run_id if _any_of(images, again) else "") for images in chunk])
        added += len(chunk)
    return added


def _any_of(images: Sequence[WaitingPicture], ids: Container[str]) -> bool:
    return any(image.image_id in ids for image in images)


def _planned(corpus_id: str, images: Sequence[WaitingPicture], salt: str) -> tuple[SliceRecord, list[str]]:
    rows = [(image.image_id, image.hash) for image in images]
    record = SliceRecord(
        slice_id=str(uuid4()),
        corpus_id=corpus_id,
        fingerprint=fingerprint(rows, decoder_version=f"{DECODER_VERSION}{salt}"),
        rows=len(rows),
        created_at=datetime.now(UTC),
    )
    return record, [image.image_id for image in images]


def task_of(
    catalog: Catalog, record: SliceRecord, roots: dict[str, Root], parts: SliceParts, boundaries: Boundaries
) -> SliceTask:
    """Return the unfinished work of one slice.

    Made when a worker is free for it, because pictures may leave the slice meanwhile.
    """
    done = catalog.receipts(record.slice_id)
    missing = parts.missing(done)
    # Once a slice has its `meta` part, finishing it cannot embed the pictures that are still pending in it.
    states = (ImageState.ACTIVE,) if META_PART in done else (ImageState.PENDING, ImageState.ACTIVE)
    pictures = catalog.planned_pictures(record.slice_id, states=states)
    captions = catalog.slice_captions(record.slice_id)
    enclosures = {root_id: enclosure_of(roots[root_id], boundaries) for root_id in {picture.root_id for picture in pictures}}
    return SliceTask(
        slice_id=record.slice_id,
        corpus_id=record.corpus_id,
        fingerprint=record.fingerprint,
        parts=missing,
        done=tuple(done.values()),
        rows=tuple(
            SliceRow(
                picture.image_id,
                picture.hash,
                locator_of_image(roots[picture.root_id], picture),
                picture.uri,
                picture.size,
                picture.mtime_ns,
                tuple(captions[picture.image_id]) if picture.image_id in captions else (),
                enclosures[picture.root_id],
            )
            for picture in pictures
        ),
    )
