"""How pictures are cut into slices."""

import pytest

from lodestone.catalog.records import ImageRecord, ImageState
from lodestone.indexing.embed.slicing import cut, slice_rows


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
