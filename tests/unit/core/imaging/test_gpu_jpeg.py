"""Decoding of JPEGs on a GPU (a fake of one): the same contract as on the CPU, in batches, and the CPU does what is left."""

from __future__ import annotations

import io
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.support import pictures
from tests.support.fake_gpu import FakeGpu
from tests.support.tiny_models import declare_torchvision_operators

from lodestone.errors import ConfigurationError, ImageError, ModelUnavailableError
from lodestone.imaging import gpu_jpeg
from lodestone.imaging.decode import DecodedImage, decode
from lodestone.imaging.gpu_jpeg import MOST_AT_ONCE, GpuJpegs, JpegFile, TorchvisionJpegs, gpu_jpegs
from lodestone.models import packages

SMALL = 64


def difference(one: Image.Image, other: Image.Image) -> float:
    """Mean difference of the inputs of a 224-pixel model, in grey levels."""
    a, b = (np.asarray(image.resize((224, 224), Image.Resampling.BICUBIC), float) for image in (one, other))
    return float(np.abs(a - b).mean())


def assert_alike(found: DecodedImage, expected: DecodedImage) -> None:
    for fact in ("width", "height", "format", "draft_scale", "orientation"):
        assert getattr(found, fact) == getattr(expected, fact), fact
    assert (found.image.mode, found.image.size) == ("RGB", expected.image.size)
    assert found.embedded == expected.embedded
    assert difference(found.image, expected.image) < 1


@pytest.mark.parametrize("size", [(1600, 1200), (801, 603), (300, 200), (1021, 67)])
@pytest.mark.parametrize("min_side", [16, 64, 224])
def test_pixels_and_facts_are_those_of_the_cpu(size: tuple[int, int], min_side: int) -> None:
    data, gpu = pictures.jpeg_bytes(size, seed=5), GpuJpegs(FakeGpu())
    assert_alike(decode(data, min_side=min_side, jpegs=gpu), decode(data, min_side=min_side))
    assert (gpu.decoded, gpu.declined) == (1, 0)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied(orientation: int) -> None:
    data, gpu = pictures.oriented_bytes(orientation), GpuJpegs(FakeGpu())
    found = decode(data, min_side=SMALL, jpegs=gpu)
    assert_alike(found, decode(data, min_side=SMALL))
    assert pictures.quadrants_of(found.image) == pictures.quadrants_of(pictures.orientation_pattern())
    assert gpu.decoded == 1


def test_a_colour_profile_is_honoured() -> None:
    image = Image.new("RGB", (320, 240), (40, 200, 60))
    plain = pictures.encoded(image, "JPEG")
    data = pictures.encoded(image, "JPEG", icc_profile=pictures.wide_gamut_profile())
    found, gpu = {}, GpuJpegs(FakeGpu())
    for name, one in {"plain": plain, "wide": data}.items():
        found[name] = decode(one, min_side=SMALL, jpegs=gpu).image
        assert difference(found[name], decode(one, min_side=SMALL).image) < 1
    assert difference(found["plain"], found["wide"]) > 5
    assert gpu.decoded == 2


@pytest.mark.parametrize(
    "data",
    [
        pictures.encoded(pictures.photo((300, 200)), "JPEG", progressive=True),
        pictures.encoded(pictures.photo((300, 200)).convert("L"), "JPEG"),
        pictures.cmyk_jpeg_bytes(),
        pictures.encoded(pictures.photo((300, 200)), "JPEG", keep_rgb=True),
        pictures.encoded(pictures.photo((300, 200)), "PNG"),
        pictures.encoded(pictures.photo((300, 200)), "WEBP"),
    ],
    ids=["progressive", "grey", "cmyk", "rgb", "png", "webp"],
)
def test_other_files_are_decoded_by_the_cpu(data: bytes) -> None:
    fake = FakeGpu()
    found, expected = decode(data, min_side=SMALL, jpegs=GpuJpegs(fake)), decode(data, min_side=SMALL)
    assert not fake.batches
    assert found.image.tobytes() == expected.image.tobytes()


def test_a_file_that_ends_early_fails_as_it_does_on_the_cpu() -> None:
    fake, whole = FakeGpu(), pictures.jpeg_bytes((300, 200))
    with pytest.raises(ImageError) as caught:
        decode(whole[: len(whole) // 4], min_side=SMALL, jpegs=GpuJpegs(fake))
    assert caught.value.details["reason"] == "truncated"
    assert not fake.batches
    decode(whole + b"\0" * 100, min_side=SMALL, jpegs=GpuJpegs(fake))  # some writers pad the end
    assert fake.batches == [1]


def test_open_files_and_huge_pictures_are_left_to_the_cpu(tmp_path) -> None:
    fake = FakeGpu()
    path = pictures.write_photo(tmp_path / "photo.jpg")
    assert decode(path, min_side=SMALL, jpegs=GpuJpegs(fake)).image.tobytes() == decode(path, min_side=SMALL).image.tobytes()
    gpu = GpuJpegs(fake)
    assert gpu.decode(JpegFile(b"", 20_000, 20_000, 8)) is None
    assert (gpu.declined, fake.batches) == (1, [])


def decoded_together(gpu: GpuJpegs, fake: FakeGpu, files: list[bytes]) -> list[DecodedImage]:
    """Decode files in a thread each; the first one holds the GPU until all others wait for it."""
    fake.pause = threading.Event()
    with ThreadPoolExecutor(len(files)) as pool:
        results = [pool.submit(decode, data, min_side=SMALL, jpegs=gpu) for data in files]
        while not fake.batches or len(gpu._waiting) + fake.batches[0] < len(files):
            threading.Event().wait(0.01)
        fake.pause.set()
        return [result.result(180) for result in results]


def test_pictures_of_several_threads_share_batches() -> None:
    fake = FakeGpu()
    files = [pictures.jpeg_bytes((200, 150), seed=seed) for seed in range(MOST_AT_ONCE + 8)]
    gpu = GpuJpegs(fake)
    for data, found in zip(files, decoded_together(gpu, fake, files), strict=True):
        assert_alike(found, decode(data, min_side=SMALL))
    assert sum(fake.batches) == len(files)
    assert len(fake.batches) <= 3
    assert max(fake.batches) <= MOST_AT_ONCE
    assert gpu.decoded == len(files)


def test_a_batch_that_memory_has_no_room_for_goes_to_the_cpu_and_later_ones_are_smaller() -> None:
    fake = FakeGpu(room=3)
    files = [pictures.jpeg_bytes((200, 150), seed=seed) for seed in range(24)]
    gpu = GpuJpegs(fake)
    for data, found in zip(files, decoded_together(gpu, fake, files), strict=True):
        assert_alike(found, decode(data, min_side=SMALL))
    assert gpu.most < 24
    assert gpu.declined > 0
    while gpu.most > fake.room:
        decoded_together(gpu, fake, files[: gpu.most + 1])
    before = gpu.declined
    decoded_together(gpu, fake, files)
    assert gpu.declined == before


def test_a_picture_that_the_gpu_refuses_costs_the_others_of_its_batch_nothing() -> None:
    files = [pictures.jpeg_bytes((200, 150), seed=seed) for seed in range(6)]
    fake = FakeGpu(broken=frozenset(files[3:4]))
    gpu = GpuJpegs(fake)
    for data, found in zip(files, decoded_together(gpu, fake, files), strict=True):
        assert_alike(found, decode(data, min_side=SMALL))
    assert (gpu.decoded, gpu.declined) == (5, 1)


def test_without_a_gpu_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    declare_torchvision_operators()
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigurationError, match="torch finds no GPU") as caught:
        gpu_jpegs()
    assert "index.gpu_decode = false" in str(caught.value.hint)


def test_without_torchvision_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ModelUnavailableError, match=r"index\.gpu_decode needs the package torchvision"):
        gpu_jpegs()


class FakeIo:
    """Stands for `torchvision.io`: this is a fake, Pillow decodes."""

    class ImageReadMode:
        RGB = "RGB"

    def __init__(self) -> None:
        self.devices: list[str] = []

    def decode_jpeg(self, data: list[Any], *, mode: str, device: Any) -> list[Any]:
        import torch

        assert mode == "RGB"
        self.devices.append(str(device))
        opened = [np.asarray(Image.open(io.BytesIO(bytes(each.numpy())))) for each in data]
        return [torch.from_numpy(pixels.copy()).permute(2, 0, 1) for pixels in opened]


def test_planes_of_torch_are_reduced_to_the_size_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeIo()
    monkeypatch.setattr(gpu_jpeg, "import_library", lambda *_, **__: fake)
    gpu = GpuJpegs(TorchvisionJpegs("cpu"))
    for size in ((1600, 1200), (801, 603), (1021, 67)):
        data = pictures.jpeg_bytes(size, seed=2)
        assert_alike(decode(data, min_side=SMALL // 4, jpegs=gpu), decode(data, min_side=SMALL // 4))
    assert gpu.decoded == 3
    assert set(fake.devices) == {"cpu"}


def test_torchvisions_own_decoder_gives_the_pixels_of_pillow() -> None:
    """Its libjpeg on the CPU: the calls are those that nvJPEG gets, the decoder is not."""
    declare_torchvision_operators()
    try:
        gpu = GpuJpegs(TorchvisionJpegs("cpu"))
    except (ConfigurationError, ModelUnavailableError) as error:
        pytest.skip(f"this torchvision decodes no JPEG: {error.message}")
    for size in ((1600, 1200), (801, 603)):
        data = pictures.jpeg_bytes(size, seed=2)
        assert_alike(decode(data, min_side=SMALL, jpegs=gpu), decode(data, min_side=SMALL))
    assert gpu.decoded == 2
