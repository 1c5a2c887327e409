"""How pictures are cut into slices."""

import pytest

from lodestone.catalog.records import ImageRecord, ImageState
from lodestone.indexing.embed.slicing import cut, first_slice_rows, slice_rows


def images(count: int) -> list[ImageRecord]:
    return [ImageRecord(f"{i}", "c", "r", f"{i}.jpg", f"{i}", 1, 1, ImageState.PENDING) for i in range(count)]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 16, 17, 40, 100, 257])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_picture_is_in_one_slice_in_order_and_none_is_too_large(count: int, workers: int) -> None:
    slices = list(cut(images(count), size=8, workers=workers))
    assert [image for part in slices for image in part] == images(count)
    assert all(1 <= len(part) <= 8 for part in slices)


def test_the_last_slices_are_even_so_that_workers_finish_together() -> None:
    sizes = [len(part) for part in cut(images(1000), size=100, workers=2)]
    assert sum(sizes) == 1000
    assert max(sizes[-2:]) - min(sizes[-2:]) <= 1
    sizes = [len(part) for part in cut(images(130), size=100, workers=2)]
    assert sizes == [65, 65]


@pytest.mark.parametrize(("count", "workers", "sizes"), [(33, 3, [5, 5, 5, 6, 6, 6]), (20, 2, [5, 5, 5, 5]), (9, 3, [4, 5])])
def test_the_rest_is_dealt_out_over_all_workers(count: int, workers: int, sizes: list[int]) -> None:
    """Five slices of eight or fewer would keep three workers busy for two rounds with one idle: six do better.

    Of fewer slices than workers nothing is gained by dealing.
    """
    assert sorted(len(part) for part in cut(images(count), size=8, workers=workers)) == sizes


def test_cutting_holds_only_a_few_slices_at_a_time() -> None:
    taken = 0

    def counted():
        nonlocal taken
        for image in images(1000):
            taken += 1
            yield image

    next(cut(counted(), size=10, workers=2))
    assert taken <= 50


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 403, 1000, 5000])
@pytest.mark.parametrize("workers", [1, 2, 8])
def test_slices_that_begin_small_hold_every_picture_once_and_in_order(count: int, workers: int) -> None:
    slices = list(cut(images(count), size=256, workers=workers, first=32))
    assert [image for part in slices for image in part] == images(count)
    assert all(1 <= len(part) <= 256 for part in slices)


def test_the_first_slices_are_small_and_grow_so_that_a_run_that_is_killed_early_has_kept_some() -> None:
    sizes = [len(part) for part in cut(images(5000), size=256, workers=2, first=32)]
    assert sizes[:13] == [32] * 4 + [64] * 4 + [128] * 4 + [256]
    assert [len(part) for part in cut(images(403), size=256, workers=2, first=32)] == [32] * 4 + [45] + [46] * 5
    sizes = [len(part) for part in cut(images(50_000), size=256, workers=64, first=32)]
    assert sizes[:49] == [32] * 16 + [64] * 16 + [128] * 16 + [256]  # many workers do not make many more small slices


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [200, 403, 600, 639, 1000, 3000, 9000])
def test_slices_that_begin_small_end_evenly_too(count: int, workers: int) -> None:
    """A large slice at the end would keep one worker busy alone."""
    sizes = [len(part) for part in cut(images(count), size=256, workers=workers, first=32)]
    last = sizes[-min(workers, len(sizes)) :]
    assert max(last) - min(last) <= 1
    busy = [0] * workers  # each takes the next slice when it is free
    for rows in sizes:
        busy[busy.index(min(busy))] += rows
    assert max(busy) - min(busy) <= max(last) + 1


@pytest.mark.parametrize(("wanted", "in_bucket", "rows"), [(0, False, 32), (0, True, 0), (64, False, 0)])
def test_first_slices_are_small_on_disks_where_no_size_is_set(wanted: int, in_bucket: bool, rows: int) -> None:
    assert first_slice_rows(wanted, in_bucket=in_bucket) == rows


@pytest.mark.parametrize(
    ("wanted", "pictures", "in_bucket", "rows"),
    [
        (0, 10_000_000, False, 256),  # on a disk, slices stay small
        (0, 1_000, True, 256),
        (0, 400_000, True, 781),
        (0, 2_000_000, True, 2_048),
        (8_192, 1_000, True, 8_192),
        (64, 10_000_000, False, 64),
    ],
)
def test_slices_are_large_in_buckets_where_there_are_many_pictures(
    wanted: int, pictures: int, in_bucket: bool, rows: int
) -> None:
    assert slice_rows(wanted, pictures, in_bucket=in_bucket) == rows
