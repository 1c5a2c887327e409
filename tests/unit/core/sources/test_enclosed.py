"""Everything that indexing reads of a root is read inside the folder that it must lie in."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.archives import write_tar
from tests.support.pictures import jpeg_bytes

from lodestone.errors import ImageError
from lodestone.files.beneath import Enclosure
from lodestone.files.filesystems import FileSystems
from lodestone.files.tokens import hash_bytes
from lodestone.sources import reading, verified
from lodestone.sources.base import FoundFile, UnreadablePath
from lodestone.sources.containers import ContainerSource
from lodestone.sources.folders import discover
from lodestone.sources.reading import Reader
from lodestone.sources.sidecars import read_sidecars
from lodestone.sources.verified import VerifiedFile, open_verified

PICTURE = jpeg_bytes((40, 30), seed=1)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """An allowed folder with a picture, beside a folder with another one."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "s.jpg").write_bytes(jpeg_bytes((40, 30), seed=2))
    (tmp_path / "secret" / "s.txt").write_text("the secret words")
    photos = tmp_path / "allowed" / "photos"
    photos.mkdir(parents=True)
    (photos / "a.jpg").write_bytes(PICTURE)
    return photos


@pytest.fixture
def within(photos: Path) -> Enclosure:
    return Enclosure(str(photos.parent), str(photos))


def test_links_out_of_the_folder_are_reported_and_links_inside_it_followed(photos: Path, within: Enclosure) -> None:
    (photos / "link.jpg").symlink_to(photos.parent.parent / "secret" / "s.jpg")
    (photos / "out").symlink_to(photos.parent.parent / "secret")
    (photos.parent / "more").mkdir()
    (photos.parent / "more" / "b.jpg").write_bytes(PICTURE)
    (photos / "in").symlink_to("../more")
    (photos / "broken.jpg").symlink_to("nowhere.jpg")
    troubles: list[UnreadablePath] = []
    found = list(discover(photos, within=within, on_unreadable=troubles.append))
    assert [file.uri for file in found] == ["a.jpg", "in/b.jpg"]
    assert [found[0].locator, found[0].size] == [str(photos / "a.jpg"), len(PICTURE)]
    assert sorted(trouble.uri for trouble in troubles) == ["link.jpg", "out"]
    assert all("leads out of the folder" in trouble.message for trouble in troubles)
    assert {file.uri for file in discover(photos)} == {"a.jpg", "in/b.jpg", "link.jpg", "out/s.jpg"}
    assert [file.uri for file in discover(photos / "a.jpg", within=Enclosure(str(photos.parent), str(photos / "a.jpg")))] == [
        "a.jpg"
    ]
    strict = Enclosure(str(photos), str(photos), links=False)
    assert [file.uri for file in discover(photos, within=strict, follow_symlinks=False)] == ["a.jpg"]


def test_a_folder_swapped_for_a_link_while_it_is_listed_lists_nothing_of_elsewhere(photos: Path, within: Enclosure) -> None:
    (photos / "Z").mkdir()
    (photos / "Z" / "z.jpg").write_bytes(PICTURE)
    troubles: list[UnreadablePath] = []
    files = discover(photos, within=within, on_unreadable=troubles.append)
    assert next(files).uri == "a.jpg"  # the folder `Z` was seen before it, and is listed after it
    (photos / "Z").rename(photos.parent / "Z")
    (photos / "Z").symlink_to(photos.parent.parent / "secret")
    assert list(files) == []
    assert [trouble.uri for trouble in troubles] == ["Z"]


def test_a_file_swapped_for_a_link_after_the_listing_is_neither_hashed_nor_read(photos: Path, within: Enclosure) -> None:
    (found,) = discover(photos, within=within)
    secret = photos.parent.parent / "secret" / "s.jpg"
    (photos / "a.jpg").unlink()
    (photos / "a.jpg").symlink_to(secret)
    reader, status = Reader(), secret.stat()
    (hashed,) = reader.identify([found], within=within)
    assert isinstance(hashed, ImageError)
    (unbounded,) = reader.identify([found])
    assert unbounded == hash_bytes(secret.read_bytes())
    facts = {"content": unbounded, "size": status.st_size, "mtime_ns": status.st_mtime_ns}
    with pytest.raises(ImageError, match="leads out"):
        reader.read(found.locator, **facts, within=within)
    with pytest.raises(ImageError, match="leads out"):
        reader.read_beginning(found.locator, **facts, most=10, within=within)
    assert reader.read(found.locator, **facts) == secret.read_bytes()


def test_a_large_file_is_decoded_from_what_was_hashed(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "READ_WHOLE_BYTES", 10)
    content = hash_bytes(PICTURE)
    source = Reader().read(str(photos / "a.jpg"), content=content, size=len(PICTURE), mtime_ns=0)
    (photos / "a.jpg").unlink()
    (photos / "a.jpg").write_bytes(b"something else")
    assert not isinstance(source, bytes)
    with source:
        assert source.read() == PICTURE


def test_texts_beside_pictures_are_read_inside_the_folder(photos: Path, within: Enclosure) -> None:
    (photos / "a.txt").symlink_to(photos.parent.parent / "secret" / "s.txt")
    assert [caption.text for caption in read_sidecars(photos / "a.jpg")] == ["the secret words"]
    assert read_sidecars(photos / "a.jpg", within) == ()
    os.mkfifo(photos / "a.jpg.txt")
    assert read_sidecars(photos / "a.jpg", within) == ()


def test_archives_are_opened_inside_the_folder(photos: Path, within: Enclosure) -> None:
    (photos / "a.jpg").unlink()
    write_tar(photos.parent.parent / "secret" / "s.tar", {"x.jpg": PICTURE})
    (photos / "s.tar").symlink_to(photos.parent.parent / "secret" / "s.tar")
    (free,) = ContainerSource(str(photos), "tar", FileSystems()).items(print)
    with pytest.raises(Exception, match="leads out"):
        list(ContainerSource(str(photos), "tar", FileSystems(), within=within).items(print))
    facts = {"content": free.token, "size": free.size, "mtime_ns": free.mtime_ns}
    assert Reader().read(free.locator, **facts) == PICTURE
    with pytest.raises(Exception, match=r"leads out|was changed"):
        Reader().read(free.locator, **facts, within=within)


def table_of(folder: Path, *rows: str) -> tuple[list[FoundFile], list[UnreadablePath]]:
    pq.write_table(pa.table({"path": list(rows)}), folder / "t.parquet")
    within = Enclosure(str(folder.parent), str(folder))
    troubles: list[UnreadablePath] = []
    return list(ContainerSource(str(folder), "table", FileSystems(), within=within).items(troubles.append)), troubles


def test_tables_name_nothing_outside_the_folder_and_no_url(photos: Path) -> None:
    secret = photos.parent.parent / "secret" / "s.jpg"
    (photos / "link.jpg").symlink_to(secret)
    named = [
        "a.jpg",
        str(secret),
        f"file://{secret}",
        "../../secret/s.jpg",
        "link.jpg",
        "http://127.0.0.1:1/x.jpg",
        "s3://b/x.jpg",
    ]
    found, troubles = table_of(photos, *named)
    assert [file.locator for file in found] == [str(photos / "a.jpg")]
    assert len(troubles) == len(named) - 1


def test_lance_tables_are_refused_in_the_folder(photos: Path, within: Enclosure) -> None:
    (photos / "t.lance").mkdir()
    with pytest.raises(Exception, match="only Parquet"):
        list(ContainerSource(str(photos), "table", FileSystems(), within=within).items(print))


# What is sent


def test_only_bytes_of_the_expected_hash_are_sent(photos: Path, within: Enclosure, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"content": hash_bytes(PICTURE), "size": len(PICTURE), "within": within}
    for most in (1 << 20, 10):  # held in memory, and sent from the file
        monkeypatch.setattr(verified, "WHOLE_BYTES", most)
        sent = open_verified(str(photos / "a.jpg"), **facts)
        assert (sent if isinstance(sent, bytes) else b"".join(sent.parts())) == PICTURE
        for other in (PICTURE[:-1] + b"!", PICTURE + b"!", PICTURE[:-1], b""):
            (photos / "b.jpg").write_bytes(other)
            with pytest.raises(ImageError, match="not what was indexed"):
                open_verified(str(photos / "b.jpg"), **facts)
    monkeypatch.setattr(verified, "MOST_BYTES", 10)
    with pytest.raises(ImageError, match="at most"):
        open_verified(str(photos / "a.jpg"), **facts)


def test_parts_of_a_large_file_are_compared_as_they_are_sent(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified, "WHOLE_BYTES", 10)
    monkeypatch.setattr(verified, "PART_BYTES", 64)
    data = bytes(range(256)) + b"end"
    path = photos / "large.bmp"

    def opened() -> VerifiedFile:
        path.write_bytes(data)
        file = open_verified(str(path), content=hash_bytes(data), size=len(data))
        assert isinstance(file, VerifiedFile)
        return file

    for start, stop in ((0, None), (0, 64), (63, 65), (64, 128), (200, 259), (258, None), (100, 101)):
        assert b"".join(opened().parts(start, stop)) == data[start:stop]
    parts = opened().parts()
    assert next(parts) == data[:64]
    with path.open("r+b") as file:  # the same file, written to while it is sent
        file.seek(150)
        file.write(b"another content")
    assert next(parts) == data[64:128]
    with pytest.raises(ImageError, match="not what was indexed"):
        next(parts)
