"""Decoding: every format by content, upright, in bounded memory; every broken file for its own reason."""

import io
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.support import pictures

from lodestone.errors import ImageError, ImageTooLargeError
from lodestone.imaging.decode import DecodedImage, decode
from lodestone.imaging.failures import FailureReason

_EXPECTED_FORMATS = {
    "jpeg": "JPEG",
    "jpeg_progressive": "JPEG",
    "jpeg_grey": "JPEG",
    "jpeg_cmyk": "JPEG",
    "png": "PNG",
    "png_palette": "PNG",
    "png_1_bit": "PNG",
    "png_16_bit": "PNG",
    "png_alpha": "PNG",
    "webp": "WEBP",
    "webp_animated": "WEBP",
    "gif": "GIF",
    "gif_animated": "GIF",
    "bmp": "BMP",
    "tiff": "TIFF",
    "tiff_lzw": "TIFF",
    "tiff_16_bit": "TIFF",
    "tiff_float": "TIFF",
    "tiff_cmyk": "TIFF",
    "avif": "AVIF",
    "heic": "HEIF",
    "raw": "RAW",
    "one_pixel": "PNG",
    "one_pixel_jpeg": "JPEG",
    "thin": "PNG",
    "wrong_extension": "PNG",
}


def _decode(data: bytes | Path, **settings: int) -> DecodedImage:
    return decode(data, **{"min_side": 32, **settings})


def _reason(data: bytes | Path, **settings: int) -> str:
    with pytest.raises(ImageError) as caught:
        _decode(data, **settings)
    assert caught.value.hint
    return str(caught.value.details["reason"])


@pytest.fixture(scope="module")
def every_format(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return pictures.write_every_format(tmp_path_factory.mktemp("formats"))


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, str]]:
    return pictures.write_bad_files(tmp_path_factory.mktemp("bad"))


def test_every_format_of_the_support_set_is_expected_here(every_format):
    assert set(every_format) == set(_EXPECTED_FORMATS)


@pytest.mark.parametrize("key", sorted(_EXPECTED_FORMATS))
def test_format_decodes_to_rgb_from_path_and_from_bytes(every_format, key):
    path = every_format[key]
    by_path, by_bytes = _decode(path), _decode(path.read_bytes())
    assert by_path.format == by_bytes.format == _EXPECTED_FORMATS[key]
    assert by_path.image.mode == "RGB"
    assert min(by_path.image.size) >= 1
    np.testing.assert_array_equal(np.asarray(by_path.image), np.asarray(by_bytes.image))


@pytest.mark.parametrize("key", ["jpeg", "png", "webp", "bmp", "tiff", "tiff_lzw", "tiff_cmyk", "avif", "heic", "raw", "gif"])
def test_colours_survive_decoding(every_format, key):
    decoded = np.asarray(_decode(every_format[key]).image.resize((12, 8), Image.Resampling.BOX), dtype=float)
    original = np.asarray(pictures.photo().resize((12, 8), Image.Resampling.BOX), dtype=float)
    assert np.abs(decoded - original).mean() < 6


@pytest.mark.parametrize("key", ["gif_animated", "webp_animated"])
def test_animated_files_give_their_first_frame(every_format, key):
    pixel = _decode(every_format[key]).image.getpixel((20, 15))
    assert np.abs(np.subtract(pixel, pictures.RED)).max() < 12


def test_cmyk_jpeg_has_its_colour_and_not_its_negative(every_format):
    assert np.abs(np.subtract(_decode(every_format["jpeg_cmyk"]).image.getpixel((30, 20)), (240, 140, 20))).max() < 12


@pytest.mark.parametrize("key", ["png_16_bit", "tiff_16_bit"])
def test_16_bit_samples_are_scaled_not_clipped(every_format, key):
    row = np.asarray(_decode(every_format[key]).image)[10, :, 0].astype(int)
    assert row[0] == 0
    assert row[-1] == 255
    assert abs(row[128] - 128) <= 1
    assert (np.diff(row) >= 0).all()


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.0, 255.0), (-3.0, 7.5)])
def test_float_samples_fill_the_range_they_mean(low, high):
    ramp = np.tile(np.linspace(low, high, 64, dtype=np.float32), (8, 1))
    ramp[0, 0] = np.nan
    row = np.asarray(_decode(pictures.encoded(Image.fromarray(ramp), "TIFF")).image)[4, :, 0].astype(int)
    assert (row[0], row[-1]) == (0, 255)
    assert abs(row[32] - 129) <= 2


def test_transparency_becomes_white():
    rgba = Image.new("RGBA", (20, 10), (255, 0, 0, 0))
    rgba.paste((0, 0, 255, 255), (10, 0, 20, 10))
    for format_name in ("PNG", "TIFF"):
        image = _decode(pictures.encoded(rgba, format_name)).image
        assert image.getpixel((2, 5)) == (255, 255, 255)
        assert image.getpixel((15, 5)) == (0, 0, 255)
    palette = Image.new("P", (4, 4), 1)
    palette.putpalette([10, 20, 30, 40, 50, 60])
    assert _decode(pictures.encoded(palette, "PNG", transparency=1)).image.getpixel((1, 1)) == (255, 255, 255)


@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(orientation, format_name):
    decoded = _decode(pictures.oriented_bytes(orientation, format_name=format_name), min_side=10)
    assert pictures.quadrants_of(decoded.image) == list(pictures.QUADRANTS)
    assert (decoded.width, decoded.height) == (96, 64)
    assert decoded.orientation == orientation


def test_size_of_the_original_is_upright_and_undrafted():
    stored = pictures.stored_for_orientation(pictures.orientation_pattern((1600, 1200)), 6)
    exif = Image.Exif()
    exif[0x0112] = 6
    decoded = _decode(pictures.encoded(stored, "JPEG", exif=exif), min_side=100)
    assert (decoded.width, decoded.height) == (1600, 1200)
    assert decoded.draft_scale == 8
    assert decoded.image.size == (200, 150)
    assert pictures.quadrants_of(decoded.image) == list(pictures.QUADRANTS)


def test_corrupt_exif_costs_nothing_but_the_exif():
    whole = pictures.oriented_bytes(6)
    at = whole.index(b"Exif\0\0") + 6
    for seed in range(60):
        rng = np.random.default_rng(seed)
        broken = bytearray(whole)
        for position in rng.integers(at, at + 26, 4):
            broken[position] = int(rng.integers(0, 256))
        assert min(_decode(bytes(broken), min_side=64).image.size) == 64


def test_display_p3_is_converted_to_srgb_and_a_broken_profile_is_ignored():
    plain = Image.new("RGB", (16, 16), (200, 100, 50))
    for profile in (b"no profile at all", pictures.srgb_profile()[:100]):
        assert _decode(pictures.encoded(plain, "PNG", icc_profile=profile)).image.getpixel((3, 3)) == (200, 100, 50)
    assert _decode(pictures.encoded(plain, "PNG", icc_profile=pictures.srgb_profile())).image.getpixel((3, 3)) == (200, 100, 50)
    wide = pictures.wide_gamut_profile()
    assert _decode(pictures.encoded(plain, "PNG", icc_profile=wide)).image.getpixel((3, 3)) != (200, 100, 50)


def test_raw_preview_takes_the_orientation_of_the_raw_file():
    preview = pictures.encoded(pictures.stored_for_orientation(pictures.orientation_pattern(), 6), "JPEG", quality=95)
    decoded = _decode(pictures.dng_bytes(preview, orientation=6), min_side=10)
    assert decoded.format == "RAW"
    assert pictures.quadrants_of(decoded.image) == list(pictures.QUADRANTS)


@pytest.mark.parametrize(
    "kind",
    [
        "empty",
        "text",
        "truncated_jpeg",
        "truncated_png",
        "header_only",
        "corrupt_png",
        "unsupported",
        "missing",
        "raw_without_preview",
    ],
)
def test_bad_file_is_refused_for_its_own_reason(bad_files, kind):
    path, reason = bad_files[kind]
    assert _reason(path) == reason
    assert reason in set(FailureReason)


@pytest.mark.parametrize("key", ["tiff", "tiff_lzw", "tiff_16_bit", "tiff_cmyk", "avif", "heic", "gif"])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.95])
def test_truncated_file_of_a_format_that_cannot_be_read_in_part_is_refused_as_truncated(every_format, key, share):
    whole = every_format[key].read_bytes()
    assert _reason(whole[: int(len(whole) * share)]) == "truncated"


def test_a_folder_and_a_vanished_file_are_told_apart(tmp_path):
    assert _reason(tmp_path) == "unreadable"
    assert _reason(tmp_path / "gone.jpg") == "missing"


@pytest.mark.parametrize("key", ["jpeg", "jpeg_progressive", "png", "webp", "gif", "bmp", "tiff_lzw", "avif", "heic", "raw"])
def test_random_damage_gives_a_picture_or_an_image_error(every_format, key):
    whole = every_format[key].read_bytes()
    outcomes: set[str] = set()
    for seed in range(40):
        try:
            decoded = _decode(pictures.flip_bytes(whole, seed=seed), max_decoded_bytes=64 << 20)
        except ImageError as error:
            outcomes.add(str(error.details["reason"]))
        else:
            outcomes.add(decoded.image.mode)
    assert outcomes <= {"RGB", *FailureReason}


def test_one_pixel_and_extreme_shapes(every_format):
    assert _decode(every_format["one_pixel"]).image.size == (1, 1)
    assert _decode(every_format["one_pixel_jpeg"]).image.size == (1, 1)
    assert _decode(every_format["thin"], min_side=260).image.size == (1, 20_000)
    wide = pictures.encoded(Image.new("RGB", (20_000, 1)), "JPEG")
    assert _decode(wide, min_side=260).image.size == (20_000, 1)


def test_pixels_beyond_the_memory_limit_are_refused_from_the_header():
    data = pictures.encoded(Image.new("RGB", (600, 400)), "PNG")
    assert _decode(data, max_decoded_bytes=600 * 400 * 4).width == 600
    with pytest.raises(ImageTooLargeError) as caught:
        _decode(data[:64], max_decoded_bytes=600 * 400 * 4 - 1)  # nothing behind the header is needed to refuse
    assert caught.value.details["reason"] == "too_large"
    assert (caught.value.details["width"], caught.value.details["height"]) == (600, 400)


def test_memory_that_decoders_and_conversions_hold_counts_too():
    pixels = 600 * 400
    for format_name, image, per_pixel in (
        ("WEBP", Image.new("RGB", (600, 400)), 16),
        ("AVIF", Image.new("RGB", (600, 400)), 10),
        ("PNG", Image.new("L", (600, 400)), 5),
        ("TIFF", Image.new("F", (600, 400)), 20),
    ):
        data = pictures.encoded(image, format_name)
        assert _decode(data, max_decoded_bytes=pixels * per_pixel).width == 600
        assert _reason(data, max_decoded_bytes=pixels * per_pixel - 1) == "too_large"


def test_20000_x_20000_png_is_too_large_within_512_mb():
    assert _reason(pictures.huge_png_bytes(), min_side=260) == "too_large"


def test_20000_x_20000_jpeg_decodes_in_bounded_memory():
    # A process of its own, and its own peak: `ru_maxrss` on Linux is inherited from the parent.
    script = (
        "import re, resource, sys\n"
        "from pathlib import Path\n"
        "from lodestone.imaging.decode import decode\n"
        "from tests.support.pictures import huge_jpeg_bytes\n"
        "def peak_mb():\n"
        "    status = Path('/proc/self/status')\n"
        "    if status.exists():\n"
        "        return int(re.search(r'VmHWM:\\s+(\\d+)', status.read_text())[1]) >> 10\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 20\n"
        "data = huge_jpeg_bytes()\n"
        "before = peak_mb()\n"
        "picture = decode(data, min_side=260)\n"
        "print(picture.width, picture.height, *picture.image.size, picture.draft_scale, peak_mb() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[4]
    )
    *sizes, grown = (int(word) for word in done.stdout.split())
    assert sizes == [20_000, 20_000, 2_500, 2_500, 8]
    assert grown < 128  # megabytes: 25 are the reduced picture, 1,600 would be the whole


def test_pillow_s_global_limit_and_registry_stay_as_they_were(every_format):
    script = (
        "import sys\nfrom PIL import Image\nlimit = Image.MAX_IMAGE_PIXELS\n"
        "from lodestone.imaging.decode import decode\n"
        "decode(sys.argv[1], min_side=10)\n"
        "assert Image.MAX_IMAGE_PIXELS == limit\n"
        "assert 'pillow_heif' not in sys.modules and 'rawpy' not in sys.modules\n"
        "decode(sys.argv[2], min_side=10)\n"
        "assert 'HEIF' not in Image.OPEN\n"
    )
    subprocess.run([sys.executable, "-c", script, str(every_format["jpeg"]), str(every_format["heic"])], check=True)


def test_decoding_in_threads_gives_what_it_gives_alone(every_format):
    keys = ["jpeg", "png", "webp", "tiff_lzw", "heic", "avif", "raw", "gif"]
    alone = {key: _decode(every_format[key]).image.tobytes() for key in keys}
    wrong: list[str] = []

    def run() -> None:
        wrong.extend(key for key in keys for _ in range(3) if _decode(every_format[key]).image.tobytes() != alone[key])

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_names_in_any_script_and_not_in_utf8_decode(tmp_path):
    for name in pictures.write_strange_names(tmp_path):
        assert _decode(tmp_path / Path(name.decode("utf-8", "surrogateescape"))).format == "JPEG"


def test_decoded_picture_keeps_no_hold_on_the_file(every_format):
    with io.BytesIO(every_format["jpeg"].read_bytes()) as stream:
        picture = _decode(stream.getvalue())
    assert picture.image.copy().size == picture.image.size
