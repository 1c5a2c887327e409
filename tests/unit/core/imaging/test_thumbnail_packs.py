"""Packs of thumbnails: one write a slice, one ranged read a thumbnail, and no damage is taken for a picture."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support import pictures
from tests.support.buckets import BucketInMemory, CountingFile

from lodestone.errors import SourceError, ThumbnailsDamagedError
from lodestone.files.opening import open_area
from lodestone.files.tokens import hash_bytes
from lodestone.imaging.thumbnail_packs import PackName, ThumbnailPacks, decode, encode
from lodestone.imaging.thumbnails import ThumbnailStore, make_thumbnail

NAME = PackName("6f9619ff-8b86-d011-b42d-00cf4fc964ff", "ab" * 16)
THUMBNAILS = {hash_bytes(f"{seed}".encode()): make_thumbnail(pictures.photo(seed=seed), size_px=32) for seed in range(9)}
FIRST = min(THUMBNAILS)


def test_a_slice_is_one_write_and_a_thumbnail_one_ranged_read_without_listing() -> None:
    area = BucketInMemory()
    packs = ThumbnailPacks(area)
    packs.write(NAME, THUMBNAILS)
    assert area.counts == {"PUT": 1}
    assert list(area.objects) == [f"packs/{NAME.corpus_id}/ab/{NAME.fingerprint}.thumbnails"]
    area.counts.clear()
    assert {content: packs.read(NAME, content) for content in THUMBNAILS} == THUMBNAILS
    assert area.counts == {"HEAD": 1, "GET": 1 + len(THUMBNAILS)}  # the index is read once


def test_the_index_of_a_very_large_slice_is_read_whole() -> None:
    many = {hash_bytes(number.to_bytes(4)): number.to_bytes(4) for number in range(5000)}
    area = BucketInMemory()
    packs = ThumbnailPacks(area)
    packs.write(NAME, many)
    assert packs.contents(NAME) == sorted(many)
    assert all(packs.read(NAME, content) == data for content, data in many.items())


def test_what_is_not_in_a_pack_or_has_none_is_missing() -> None:
    area = BucketInMemory()
    packs = ThumbnailPacks(area)
    packs_of_folder = packs.contents(NAME)
    assert packs_of_folder == []
    area.counts.clear()
    for content in THUMBNAILS:
        with pytest.raises(FileNotFoundError):
            packs.read(NAME, content)
    assert area.counts == {"HEAD": 1}  # that a slice has no pack is remembered for a while
    packs.write(NAME, THUMBNAILS)
    assert packs.read(NAME, FIRST) == THUMBNAILS[FIRST]
    with pytest.raises(FileNotFoundError):
        packs.read(NAME, "0" * 64)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda content: content[:-1], "bytes instead of"),
        (lambda content: content[:10], "no whole header"),
        (lambda content: b"", "no whole header"),
        (lambda content: b"x" * len(content), "no pack of thumbnails"),
        (lambda content: content[:60] + bytes([content[60] ^ 1]) + content[61:], "damaged index"),
        (lambda content: content[:20] + struct.pack("<I", 2**31) + content[24:], "bytes instead of"),
    ],
)
def test_a_damaged_pack_is_an_error_with_a_code_and_a_hint(damage, problem) -> None:
    area = BucketInMemory()
    area.objects[NAME.path] = damage(encode(THUMBNAILS))
    packs = ThumbnailPacks(area)
    with pytest.raises(ThumbnailsDamagedError, match=problem) as caught:
        packs.read(NAME, FIRST)
    assert (caught.value.code, "lodestone index" in caught.value.hint) == ("thumbnails_damaged", True)
    found = packs.verify(NAME)
    assert found.exists
    assert problem in (found.problem or "")
    assert packs.thumbnails(NAME, THUMBNAILS) == {}


def test_one_altered_thumbnail_is_never_given_and_costs_no_other() -> None:
    content = encode(THUMBNAILS)
    area = BucketInMemory()
    area.objects[NAME.path] = content[:-1] + bytes([content[-1] ^ 1])  # of the last one
    packs = ThumbnailPacks(area)
    last = max(THUMBNAILS)
    with pytest.raises(ThumbnailsDamagedError, match="other bytes than were written"):
        packs.read(NAME, last)
    rest = {content: data for content, data in THUMBNAILS.items() if content != last}
    assert {content: packs.read(NAME, content) for content in rest} == rest
    assert packs.verify(NAME).problem is None
    assert "other bytes" in (packs.verify(NAME, deep=True).problem or "")
    assert decode(pa.py_buffer(area.objects[NAME.path])) == rest


def test_a_pack_that_was_replaced_meanwhile_is_read_by_its_new_index() -> None:
    area = BucketInMemory()
    reader, writer = ThumbnailPacks(area), ThumbnailPacks(area)
    writer.write(NAME, THUMBNAILS)
    last = max(THUMBNAILS)
    assert reader.read(NAME, last) == THUMBNAILS[last]
    assert writer.keep(NAME, {last}) == len(THUMBNAILS) - 1
    reader._open[NAME]._file = CountingFile(
        pa.py_buffer(area.objects[NAME.path]), area.counts
    )  # a bucket reads what is there now
    assert reader.read(NAME, last) == THUMBNAILS[last]
    with pytest.raises(FileNotFoundError):
        reader.read(NAME, FIRST)


def test_a_deleted_pack_is_missing_also_for_who_has_read_its_index(monkeypatch: pytest.MonkeyPatch) -> None:
    area = BucketInMemory()
    packs = ThumbnailPacks(area)
    packs.write(NAME, THUMBNAILS)
    packs.read(NAME, FIRST)
    area.objects.clear()

    def away(*_: object) -> bytes:
        raise SourceError("no such key")

    monkeypatch.setattr(CountingFile, "read", away)
    with pytest.raises(FileNotFoundError):
        packs.read(NAME, FIRST)


def test_dropping_thumbnails_leaves_no_byte_of_them() -> None:
    area = BucketInMemory()
    packs = ThumbnailPacks(area)
    packs.write(NAME, THUMBNAILS)
    kept = set(sorted(THUMBNAILS)[:4])
    assert packs.keep(NAME, kept) == len(THUMBNAILS) - 4
    assert packs.keep(NAME, kept) == 0
    assert packs.contents(NAME) == sorted(kept)
    for content in set(THUMBNAILS) - kept:
        assert THUMBNAILS[content] not in area.objects[NAME.path]
    assert packs.keep(NAME, set()) == 4
    assert area.objects == {}


def test_packs_are_found_by_corpus_and_go_with_it() -> None:
    area = BucketInMemory()
    packs = ThumbnailPacks(area)
    other = PackName("other", "cd" * 16)
    for name in (NAME, other):
        packs.write(name, THUMBNAILS)
    assert list(packs.names(NAME.corpus_id)) == [NAME]
    packs.remove_corpus(NAME.corpus_id)
    assert list(packs.names(NAME.corpus_id)) == []
    assert list(packs.names("other")) == [other]
    assert list(ThumbnailStore(area, size=32).contents()) == []  # packs are no single thumbnails


def test_files_in_a_wrong_folder_or_of_another_kind_are_no_packs() -> None:
    area = BucketInMemory()
    packs = ThumbnailPacks(area)
    packs.write(NAME, THUMBNAILS)
    folder, content = f"packs/{NAME.corpus_id}", area.objects[NAME.path]
    for path in (
        f"cd/{NAME.fingerprint}.thumbnails",
        f"{NAME.fingerprint}.thumbnails",
        f"ab/{'ab' * 16}.tmp",
        "ab/a b.thumbnails",
    ):
        area.write(f"{folder}/{path}", content)
    assert list(packs.names(NAME.corpus_id)) == [NAME]


@pytest.mark.parametrize("wrong", ["..", "a/b", "", "a.b"])
def test_names_that_would_point_elsewhere_are_refused(wrong: str) -> None:
    for name in (PackName(wrong, "ab" * 16), PackName("corpus", wrong)):
        with pytest.raises(ValueError, match="cannot be part of a file name"):
            name.path  # noqa: B018


def test_a_key_that_is_no_content_hash_is_refused() -> None:
    with pytest.raises(ValueError, match="not a content hash"):
        encode({"abcd": b"x"})


@pytest.mark.parametrize("bucket", [True, False])
def test_a_store_reads_packed_and_single_thumbnails(tmp_path: Path, bucket: bool) -> None:
    area = BucketInMemory() if bucket else open_area(tmp_path)
    located: list[str] = []

    def locate(content: str) -> list[tuple[str, str]]:
        located.append(content)
        return [("another", "00" * 16), NAME]

    store = ThumbnailStore(area, size=32, locate=locate)
    assert store.packs_slices is bucket
    single, packed = sorted(THUMBNAILS)[:2]
    store.put(single, THUMBNAILS[single])
    store.packs.write(NAME, {packed: THUMBNAILS[packed]})
    assert store.good(single) == THUMBNAILS[single]
    assert store.good(packed) == THUMBNAILS[packed]
    assert store.good("0" * 64) is None
    assert (single in located) is bucket  # in a folder a look is cheaper than the catalog
    assert list(store.contents()) == [single]


def test_a_damaged_pack_counts_as_a_missing_thumbnail_and_a_new_single_one_is_read(caplog: pytest.LogCaptureFixture) -> None:
    area = BucketInMemory()
    store = ThumbnailStore(area, size=32, locate=lambda _: [NAME])
    area.objects[NAME.path] = encode(THUMBNAILS)[:-1]
    assert store.good(FIRST) is None
    assert "bytes instead of" in caplog.text
    assert store.replace(FIRST, pictures.photo()) == store.good(FIRST)
