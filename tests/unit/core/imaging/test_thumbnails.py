"""Thumbnails: size and shape, made once, never seen half-written, nothing private inside."""

import errno
import io
import threading
from pathlib import Path

import pytest
from PIL import Image
from tests.support import pictures

from lodestone.errors import OutOfSpaceError
from lodestone.files.opening import open_area
from lodestone.imaging.decode import decode
from lodestone.imaging.thumbnails import ThumbnailStore, make_thumbnail

_HASH = "ab" + "c0" * 31


def _opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


@pytest.mark.parametrize(
    ("size", "expected"),
    [((640, 480), (320, 240)), ((480, 640), (240, 320)), ((100, 50), (100, 50)), ((1, 20_000), (1, 320)), ((1, 1), (1, 1))],
)
def test_thumbnail_fits_and_keeps_its_shape(size, expected):
    thumbnail = _opened(make_thumbnail(Image.new("RGB", size), size_px=320))
    assert (thumbnail.format, thumbnail.size) == ("JPEG", expected)


def test_thumbnail_carries_no_metadata():
    exif = Image.Exif()
    exif[0x010F] = "Lodecam"
    data = pictures.encoded(
        pictures.photo((64, 48)), "JPEG", exif=exif, xmp=pictures.xmp_packet(description="secret"), comment="secret"
    )
    for size_px in (32, 320):
        thumbnail = make_thumbnail(decode(data, min_side=8).image, size_px=size_px)
        assert not _opened(thumbnail).getexif()
        assert b"secret" not in thumbnail


def test_thumbnail_is_made_once_and_found_by_its_hash(tmp_path):
    store = ThumbnailStore(open_area(tmp_path / "thumbnails"), size=64)
    assert not store.has(_HASH)
    assert store.ensure(_HASH, pictures.photo(seed=1))
    first = store.file(_HASH).read_bytes()
    assert store.file(_HASH) == tmp_path / "thumbnails" / "ab" / f"{_HASH}.jpg"
    assert not store.ensure(_HASH, pictures.photo(seed=2))
    assert store.file(_HASH).read_bytes() == first
    assert [path.name for path in (tmp_path / "thumbnails" / "ab").iterdir()] == [f"{_HASH}.jpg"]


def test_empty_file_left_by_a_crash_is_made_again(tmp_path):
    store = ThumbnailStore(open_area(tmp_path), size=64)
    store.file(_HASH).parent.mkdir(parents=True)
    store.file(_HASH).write_bytes(b"")
    assert store.ensure(_HASH, pictures.photo())
    assert _opened(store.file(_HASH).read_bytes()).size == (64, 43)


@pytest.mark.parametrize("wrong", ["", "ab", "../../../../etc/passwd", "AB" * 16, "zz" * 16])
def test_what_is_no_hash_never_becomes_a_path(tmp_path, wrong):
    with pytest.raises(ValueError, match="not a content hash"):
        ThumbnailStore(open_area(tmp_path), size=64).file(wrong)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_is_its_own_error_and_leaves_nothing_behind(tmp_path, monkeypatch, number):
    def full(self: Path, target: Path) -> None:
        raise OSError(number, "full")

    monkeypatch.setattr(Path, "replace", full)
    store = ThumbnailStore(open_area(tmp_path), size=64)
    with pytest.raises(OutOfSpaceError):
        store.ensure(_HASH, pictures.photo())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_many_writers_of_one_thumbnail_agree(tmp_path):
    store = ThumbnailStore(open_area(tmp_path), size=64)
    threads = [threading.Thread(target=store.ensure, args=(_HASH, pictures.photo())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert _opened(store.file(_HASH).read_bytes()).size == (64, 43)
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_a_damaged_thumbnail_is_no_thumbnail(tmp_path: Path) -> None:
    store = ThumbnailStore(open_area(tmp_path), size=320)
    assert store.good(_HASH) is None
    image = pictures.photo((64, 48))
    whole = store.replace(_HASH, image)
    assert store.good(_HASH) == whole
    for damaged in (b"", b"garbage", b"<script>alert(1)</script>", whole[:200], whole[: len(whole) // 2]):
        (tmp_path / store.key(_HASH)).write_bytes(damaged)
        assert store.good(_HASH) is None
    assert store.replace(_HASH, image) == whole == store.good(_HASH)
