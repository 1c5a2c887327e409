"""Memory of pictures that are decoded at once: shared, first come, first served, and given back."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from PIL import Image
from PIL.ImageFile import ImageFile
from tests.support import pictures

from lodestone.errors import ImageError, ImageTooLargeError, OverloadedError
from lodestone.imaging import budget as budgets
from lodestone.imaging.budget import DecodingBudget, give_memory_back
from lodestone.imaging.decode import REDUCED_FROM_PIXELS, Sharing, decode

PATIENT = 30.0


class Recording(DecodingBudget):
    """Keeps what was asked for, and whether it was given back in between."""

    def __init__(self, capacity: int = 1 << 30) -> None:
        super().__init__(capacity)
        self.asked: list[tuple[int, int]] = []

    @contextmanager
    def room(self, needed: int, *, until: float | None = None) -> Iterator[None]:
        self.asked.append((needed, self.taken))
        with super().room(needed, until=until):
            yield


def _soon() -> float:
    return time.monotonic() + PATIENT


def test_pictures_that_fit_together_are_decoded_together_and_others_wait() -> None:
    budget = DecodingBudget(100)
    with budget.room(60), budget.room(40):
        assert budget.taken == 100
        with pytest.raises(OverloadedError) as caught, budget.room(1, until=time.monotonic()):
            pass
        assert caught.value.hint
        assert caught.value.details["retry_after"] == 1
        assert budget.taken == 100
    assert budget.taken == 0


def test_a_picture_that_needs_more_than_everything_is_decoded_alone() -> None:
    budget = DecodingBudget(100)
    with budget.room(1000):
        assert budget.taken == 100
        with pytest.raises(OverloadedError), budget.room(1, until=time.monotonic()):
            pass
    with budget.room(100):
        pass


@pytest.mark.nightly_beyond(2)
@pytest.mark.parametrize(
    ("name", "kept"), [("PNG", 0.9), ("PNG", 0.2), ("TGA", 0.9), ("BMP", 0.9), ("BMP", 0.2), ("JPEG", 0.4)]
)
def test_pixels_of_an_attempt_that_failed_are_gone_before_the_next_one_and_afterwards(name: str, kept: float) -> None:
    whole = pictures.encoded(pictures.photo((640, 480)), name)
    loaded: list[int] = []

    class Looking(DecodingBudget):
        @contextmanager
        def room(self, needed: int, *, until: float | None = None) -> Iterator[None]:
            loaded.append(_loaded_pictures())
            with super().room(needed, until=until):
                yield

    gc.collect()
    before = _loaded_pictures()
    gc.disable()  # as if the collector came later: it looks at old objects seldom
    try:
        try:
            decode(whole[: int(len(whole) * kept)], min_side=64, sharing=Sharing(Looking(1 << 30)))
        except ImageError:
            assert _loaded_pictures() == before, "while the error is answered"
        assert _loaded_pictures() == before
    finally:
        gc.enable()
    assert loaded
    assert set(loaded) == {before}


def _loaded_pictures() -> int:
    return sum(isinstance(kept, ImageFile) and kept._im is not None for kept in gc.get_objects())


def test_room_is_given_back_after_an_error() -> None:
    budget = DecodingBudget(100)
    with pytest.raises(ValueError, match="broken"), budget.room(100):
        raise ValueError("broken")
    assert budget.taken == 0


def test_who_came_first_goes_first_even_where_a_later_one_would_fit() -> None:
    budget = DecodingBudget(100)
    order: list[str] = []

    def work(name: str, needed: int) -> None:
        with budget.room(needed, until=_soon()):
            order.append(name)

    with budget.room(50):
        large = threading.Thread(target=work, args=("large", 100))
        large.start()
        while not budget._waiting:
            time.sleep(0.001)
        small = threading.Thread(target=work, args=("small", 10))
        small.start()
        while len(budget._waiting) < 2:
            time.sleep(0.001)
    large.join()
    small.join()
    assert order == ["large", "small"]


def test_only_so_many_wait() -> None:
    budget = DecodingBudget(100, most_waiting=1)
    started = threading.Event()

    def work() -> None:
        started.set()
        with budget.room(100, until=_soon()):
            pass

    with budget.room(100):
        thread = threading.Thread(target=work)
        thread.start()
        while not budget._waiting:
            time.sleep(0.001)
        begun = time.monotonic()
        with pytest.raises(OverloadedError, match="1 large pictures wait"), budget.room(1, until=_soon()):
            pass
        assert time.monotonic() - begun < PATIENT / 2  # at once, not at its own deadline
    thread.join()
    assert budget.taken == 0


def test_one_that_gives_up_lets_the_next_one_go() -> None:
    budget = DecodingBudget(100)
    done = threading.Event()

    def impatient() -> None:
        with pytest.raises(OverloadedError), budget.room(100, until=time.monotonic() + 0.2):
            pass

    def modest() -> None:
        with budget.room(10, until=_soon()):
            done.set()

    with budget.room(50):
        threads = [threading.Thread(target=impatient)]
        threads[0].start()
        while not budget._waiting:
            time.sleep(0.001)
        threads.append(threading.Thread(target=modest))
        threads[1].start()
        assert done.wait(PATIENT)
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(("needed", "trims"), [((64 << 20) - 1, 0), (64 << 20, 1)])
def test_memory_of_a_large_picture_is_given_back(needed: int, trims: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(budgets, "give_memory_back", lambda: calls.append(1))
    budget = DecodingBudget(1 << 30)
    with budget.room(needed):
        assert not calls
    assert len(calls) == trims
    give_memory_back()  # does no harm anywhere


def test_decoding_takes_what_the_picture_needs_and_gives_it_back() -> None:
    budget = Recording()
    for mode, per_pixel in (("RGB", 4), ("L", 5)):
        file = pictures.encoded(Image.new(mode, (100, 50)), "PNG")
        decode(file, min_side=10, sharing=Sharing(budget))
        assert budget.asked.pop() == (100 * 50 * per_pixel, 0)
        assert budget.taken == 0


def test_coefficients_of_a_progressive_jpeg_count() -> None:
    budget = Recording()
    photo = pictures.photo((160, 120))
    for progressive, more in ((False, 0), (True, 160 * 120 * 3 * 2)):
        file = pictures.encoded(photo, "JPEG", progressive=progressive, subsampling=0)
        decode(file, min_side=120, sharing=Sharing(budget))
        assert budget.asked.pop() == (160 * 120 * 4 + more, 0)


def test_a_second_attempt_takes_the_place_of_the_first() -> None:
    budget = Recording(capacity=20_000)
    whole = pictures.encoded(pictures.photo((100, 50)), "PNG")
    assert decode(whole[: len(whole) * 9 // 10], min_side=10, sharing=Sharing(budget, _soon())).decoded_share
    assert budget.asked == [(20_000, 0)] * 2
    assert budget.taken == 0


def test_no_room_is_taken_for_what_is_refused() -> None:
    budget = Recording()
    file = pictures.encoded(Image.new("RGB", (100, 50)), "PNG")
    with pytest.raises(ImageTooLargeError):
        decode(file, min_side=10, max_decoded_bytes=19_999, sharing=Sharing(budget))
    with pytest.raises(ImageError):
        decode(b"no picture at all", min_side=10, sharing=Sharing(budget))
    assert budget.asked == []


def test_waiting_for_room_ends_and_says_so() -> None:
    budget = DecodingBudget(10)
    file = pictures.encoded(Image.new("RGB", (100, 50)), "PNG")
    with budget.room(10), pytest.raises(OverloadedError, match="no room"):
        decode(file, min_side=10, sharing=Sharing(budget, time.monotonic()))


def test_large_pictures_that_share_memory_are_reduced_with_the_margin_of_jpegs() -> None:
    side = 2_100
    assert side * side > REDUCED_FROM_PIXELS
    large = pictures.encoded(Image.new("RGB", (side + 100, side), (9, 90, 200)), "PNG", compress_level=1)
    sharing = Sharing(DecodingBudget(1 << 30))
    shared = decode(large, min_side=224, sharing=sharing)
    assert shared.image.size == (-(-2200 // 6), 350)  # 350 is the least of 2100/n that is at least 1.5 x 224
    assert (shared.width, shared.height) == (side + 100, side)
    assert shared.image.getpixel((5, 5)) == (9, 90, 200)
    assert decode(large, min_side=1_000, sharing=sharing).image.size == (2_200, 2_100)
    assert decode(large, min_side=224).image.size == (2_200, 2_100)  # an index run reduces nothing
    small = pictures.encoded(Image.new("RGB", (2_048, 2_048)), "PNG", compress_level=1)
    assert decode(small, min_side=224, sharing=sharing).image.size == (2_048, 2_048)
