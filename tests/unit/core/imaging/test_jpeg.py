"""JPEG draft mode: how far a picture is reduced, what that changes, and when it cannot help."""

import io

import numpy as np
import pytest
from PIL import Image
from tests.support import pictures

from lodestone.errors import ImageError, ImageTooLargeError
from lodestone.imaging.decode import decode
from lodestone.imaging.jpeg import DRAFT_MARGIN


@pytest.mark.parametrize(
    ("size", "min_side", "scale"),
    [((1600, 1200), 100, 8), ((1600, 1200), 101, 4), ((1600, 1200), 260, 2), ((500, 375), 260, 1), ((3200, 60), 16, 2)],
)
def test_scale_keeps_both_sides_above_the_margin(size, min_side, scale):
    decoded = decode(pictures.encoded(Image.new("RGB", size), "JPEG"), min_side=min_side)
    assert decoded.draft_scale == scale
    assert min(decoded.image.size) >= min(*size, DRAFT_MARGIN * min_side)
    assert (decoded.width, decoded.height) == size


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_grey_and_cmyk_are_reduced_too(mode):
    decoded = decode(pictures.encoded(Image.new(mode, (1600, 1200)), "JPEG"), min_side=100)
    assert decoded.draft_scale == 8
    assert decoded.image.mode == "RGB"


def test_reduced_decoding_changes_model_inputs_by_less_than_a_grey_level():
    data = pictures.jpeg_bytes((1600, 1200), seed=3)
    full = Image.open(io.BytesIO(data)).convert("RGB")
    drafted = decode(data, min_side=224)
    assert drafted.draft_scale == 2
    a, b = (np.asarray(image.resize((224, 224), Image.Resampling.BICUBIC), dtype=float) for image in (full, drafted.image))
    assert np.abs(a - b).mean() < 1


def test_memory_limit_takes_the_next_smaller_size_before_refusing():
    data = pictures.encoded(Image.new("RGB", (1600, 1200)), "JPEG")
    assert decode(data, min_side=290).draft_scale == 2
    assert decode(data, min_side=290, max_decoded_bytes=1 << 20).draft_scale == 4
    with pytest.raises(ImageTooLargeError):
        decode(data, min_side=700, max_decoded_bytes=1 << 20)


def test_progressive_jpeg_counts_the_coefficients_that_must_be_held():
    image = pictures.photo((1600, 1200))
    limit = 3 << 20  # coefficients: 1600 x 1200 x 1.5 x 2 bytes = 5.5 MB
    assert decode(pictures.encoded(image, "JPEG"), min_side=100, max_decoded_bytes=limit).draft_scale == 8
    with pytest.raises(ImageTooLargeError) as caught:
        decode(pictures.encoded(image, "JPEG", progressive=True), min_side=100, max_decoded_bytes=limit)
    assert caught.value.details["needed_bytes"] == 1600 * 1200 * 3


def test_more_scans_than_encoders_write_are_refused_before_they_are_decoded():
    data = pictures.encoded(Image.new("RGB", (400, 300)), "JPEG", progressive=True)
    scan = data[data.rfind(b"\xff\xda") : -2]
    assert decode(data[:-2] + scan * 50 + b"\xff\xd9", min_side=100).width == 400
    with pytest.raises(ImageError, match="more than 100 scans") as caught:
        decode(data[:-2] + scan * 4_000 + b"\xff\xd9", min_side=100)
    assert caught.value.details["reason"] == "unsupported"


def test_what_hangs_behind_a_picture_is_not_taken_for_scans():
    rng = np.random.default_rng(0)
    behind = rng.integers(0, 256, 12 << 20, np.uint8).tobytes()  # a film, as phones put there
    assert behind.count(b"\xff\xda") > 100
    picture = pictures.encoded(Image.new("RGB", (400, 300)), "JPEG", progressive=True)
    assert decode(picture + behind, min_side=100).width == 400
