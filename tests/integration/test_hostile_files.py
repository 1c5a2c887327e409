"""Files that state impossible things about themselves: the others are found, each bad one is named, and every run ends."""

from __future__ import annotations

import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.archives import tar_bytes
from tests.support.home import open_runtime
from tests.support.pictures import jpeg_bytes, photo, write_photos

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import ImageRecord, ImageState
from lodestone.files.bounds import LEAST, MOST, held
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest

_EXTREME_SECONDS = (-(2**31), 2**32, 2**33, 9_300_000_000, 2**36, -9_300_000_000)


def _outcome(runtime: Runtime, *paths: Path) -> tuple[IndexReport, set[str], set[str]]:
    """The report of a run, the pictures that can be found then, and the files that the failures name."""
    report = index_paths(runtime, IndexRequest(paths))
    corpus = runtime.catalog.corpus("default")
    images = [i for root in runtime.catalog.roots(corpus.corpus_id) for i in runtime.catalog.images_of_root(root.root_id)]
    found = {image.uri for image in images if image.state is ImageState.ACTIVE}
    return report, found, {failure.uri for failure in runtime.catalog.failures(corpus_id=corpus.corpus_id)}


def _set_time(path: Path, seconds: int) -> None:
    try:
        os.utime(path, (seconds, seconds))
    except (OSError, OverflowError):
        pytest.skip(f"this file system holds no time of {seconds} s")


def test_a_picture_dated_past_2262_is_found_and_is_not_embedded_again(tmp_path: Path) -> None:
    paths = write_photos(tmp_path / "photos", 3)
    _set_time(paths[1], 9_300_000_000)  # 2264
    if paths[1].stat().st_mtime_ns < 2**63:
        pytest.skip("this file system holds no such time")
    with open_runtime(tmp_path) as runtime:
        report, found, failed = _outcome(runtime, tmp_path / "photos")
        assert (found, failed) == ({path.name for path in paths}, set())
        again, _, _ = _outcome(runtime, tmp_path / "photos")
        assert (report.counts["new"], again.counts["unchanged"], again.counts.get("embedded", 0)) == (3, 3, 0)


def test_numbers_are_held_at_the_bounds_of_sixty_four_bits() -> None:
    assert [held(number) for number in (0, -7, MOST, MOST + 1, LEAST, LEAST - 1)] == [0, -7, MOST, MOST, LEAST, LEAST]
    assert (LEAST, MOST) == (-(2**63), 2**63 - 1)


def _times(folder: Path, chance: random.Random) -> None:
    path = folder / f"time-{chance.randrange(10**9)}.jpg"
    path.write_bytes(jpeg_bytes(seed=chance.randrange(10**6)))
    _set_time(path, chance.choice(_EXTREME_SECONDS))


def _names(folder: Path, chance: random.Random) -> None:
    alphabet = [b"\xff", b"\n", b"'", b"%", b"\\", "ü".encode(), "\u202e".encode(), b"a", b"\x01", b"\xed\xa0\x80"]
    name = b"".join(chance.choice(alphabet) for _ in range(chance.randrange(1, 40)))
    Path(os.fsdecode(os.fsencode(folder) + b"/n-" + name + b".jpg")).write_bytes(jpeg_bytes(seed=chance.randrange(10**6)))


def _numbers(folder: Path, chance: random.Random) -> None:
    """EXIF whose values are replaced by noise, with its tags left as they are."""
    exif = photo().getexif()
    exif[0x010F], exif[0x0112] = "Maker\0\ud800"[:6], chance.randrange(2**16)
    exif.get_ifd(0x8769)[0x9003] = chance.choice(["9999:99:99 99:99:99", "2024:01:01 00:00:00\0\0", "99999999999999999999"])
    exif.get_ifd(0x8825)[2] = (chance.random() * 1e9, 0.0, 4e9)
    content = bytearray(jpeg_bytes(seed=chance.randrange(10**6), exif=exif.tobytes()))
    for _ in range(chance.randrange(40)):
        content[chance.randrange(30, 160)] = chance.randrange(256)
    (folder / f"exif-{chance.randrange(10**9)}.jpg").write_bytes(content)


def _content(folder: Path, chance: random.Random) -> None:
    whole = jpeg_bytes(seed=chance.randrange(10**6))
    content = chance.choice(
        [b"", whole[: chance.randrange(len(whole) // 2)], chance.randbytes(500), b"\0" * 5000, b"MM\0*\xff\xff"]
    )
    (folder / f"content-{chance.randrange(10**9)}.jpg").write_bytes(content)


def _captions(folder: Path, chance: random.Random) -> None:
    name = f"captioned-{chance.randrange(10**9)}"
    (folder / f"{name}.jpg").write_bytes(jpeg_bytes(seed=chance.randrange(10**6)))
    (folder / f"{name}.txt").write_bytes(
        chance.choice([b"\xff\xfe\x00", chance.randbytes(300), b"\0" * 200, b"\xed\xa0\x80 half"])
    )


_KINDS: tuple[Callable[[Path, random.Random], None], ...] = (_times, _names, _numbers, _content, _captions)


@pytest.mark.nightly_beyond(1)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_file_of_a_hostile_folder_is_found_or_named(tmp_path: Path, seed: int) -> None:
    photos, chance = tmp_path / "photos", random.Random(seed)
    good = {path.name for path in write_photos(photos, 3)}
    for _ in range(30):
        chance.choice(_KINDS)(photos, chance)
    from lodestone.sources.folders import discover

    files = {file.uri for file in discover(photos)}
    with open_runtime(tmp_path, slice_size=16) as runtime:
        report, found, failed = _outcome(runtime, photos)
        assert good <= found
        assert found | failed == files
        assert not found & failed
        assert report.images == len(found)
        again, found_again, failed_again = _outcome(runtime, photos)
        assert (found_again, failed_again) == (found, failed)
        assert again.counts.get("embedded", 0) == 0


def test_an_archive_with_impossible_headers_gives_its_other_pictures(tmp_path: Path) -> None:
    sparse, huge = tarfile.TarInfo("sparse.jpg"), tarfile.TarInfo("huge.jpg")
    sparse.type, sparse.size = tarfile.GNUTYPE_SPARSE, 0
    long = tarfile.TarInfo("long/" + "x" * 5000 + ".jpg")
    huge.size = 2**62
    whole = tar_bytes({"first.jpg": jpeg_bytes(seed=1)})
    size = 512 + -(-len(jpeg_bytes(seed=1)) // 512) * 512
    archive = tmp_path / "tars" / "a.tar"
    archive.parent.mkdir()
    second = tar_bytes({"second.jpg": jpeg_bytes(seed=2)})
    archive.write_bytes(
        whole[:size]
        + sparse.tobuf(tarfile.GNU_FORMAT)
        + long.tobuf(tarfile.PAX_FORMAT)
        + second[: 512 + -(-len(jpeg_bytes(seed=2)) // 512) * 512]
        + huge.tobuf(tarfile.GNU_FORMAT)
    )
    (tmp_path / "tars" / "b.tar").write_bytes(tar_bytes({"whole.jpg": jpeg_bytes(seed=3)}))
    _set_time(archive, 9_300_000_000)
    with open_runtime(tmp_path) as runtime:
        _, found, failed = _outcome(runtime, tmp_path / "tars")
        assert found == {"a.tar/first.jpg", "a.tar/second.jpg", "b.tar/whole.jpg"}
        assert {uri[:20] for uri in failed} == {"a.tar", "a.tar/sparse.jpg", "a.tar/long/xxxxxxxxx", "a.tar/huge.jpg"}


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_archive_or_table_stops_no_other(tmp_path: Path, seed: int) -> None:
    from tests.unit.core.indexing.test_changes import Indexed

    chance = random.Random(seed)
    pictures = [jpeg_bytes((40, 30), seed=i) for i in range(4)]
    folder = tmp_path / "data"
    folder.mkdir()
    if seed % 2:
        content = bytearray(tar_bytes({f"{i}.jpg": data for i, data in enumerate(pictures)}))
        name, good = "bad.tar", "good.tar"
        (folder / good).write_bytes(tar_bytes({"good.jpg": pictures[0]}))
    else:
        name, good = "bad.parquet", "good.parquet"
        pq.write_table(pa.table({"image": pictures, "name": ["a", "b\0c", "d" * 10_000, "e"]}), folder / name)
        content = bytearray((folder / name).read_bytes())
        pq.write_table(pa.table({"image": pictures[:1]}), folder / good)
    for _ in range(chance.randrange(1, 60)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    (folder / name).write_bytes(content)
    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        indexed = Indexed(catalog)
        indexed.list(folder)
        assert any(uri.startswith(good) for uri in indexed.images())


def test_what_the_catalog_refuses_becomes_the_failure_of_that_picture(tmp_path: Path) -> None:
    from collections import Counter
    from dataclasses import replace

    from tests.support.catalogs import make_root, picture

    from lodestone.indexing.scan.scan_writer import ScanWriter

    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        corpus, root = make_root(catalog)
        run = catalog.start_run("index", corpus.corpus_id).run_id
        counts = Counter({"new": 4})
        writer = ScanWriter(catalog, run, counts)
        new = [picture(root, name) for name in ("a.jpg", "b.jpg", "c.jpg", "half.jpg")]
        new[3] = replace(new[3], uri="half\ud800.jpg")
        new[1] = replace(new[1], size=2**70)
        refused = writer.store(root, {}, new, ())
        assert refused == {new[1].image_id, new[3].image_id}
        kept = {image.uri: image for image in catalog.images_of_root(root.root_id)}
        assert set(kept) == {"a.jpg", "c.jpg"}
        assert counts == {"new": 2, "unreadable": 2, "failures": 2}
        failures = {failure.uri: failure for failure in catalog.failures(run_id=run)}
        assert set(failures) == {"b.jpg", "half\\ud800.jpg"}
        assert failures["b.jpg"].code == "unreadable"

        def changed(name: str, **facts: int) -> dict[str, ImageRecord]:
            return {kept[name].image_id: replace(kept[name], **facts)}

        updates = {**changed("a.jpg", size=2**70), **changed("c.jpg", size=77)}
        assert writer.store(root, updates, [], ()) == {kept["a.jpg"].image_id}
        sizes = {image.uri: image.size for image in catalog.images_of_root(root.root_id)}
        assert sizes == {"a.jpg": kept["a.jpg"].size, "c.jpg": 77}


def test_facts_that_the_catalog_refuses_fail_one_picture_of_a_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lodestone.indexing.embed import recording

    original = recording._pictures

    def with_one_impossible(*arguments: object) -> list[object]:
        first, *others = original(*arguments)  # type: ignore[arg-type]
        return [first._replace(taken_at=2**70), *others]

    monkeypatch.setattr(recording, "_pictures", with_one_impossible)
    paths = write_photos(tmp_path / "photos", 4)
    with open_runtime(tmp_path) as runtime:
        report, found, failed = _outcome(runtime, tmp_path / "photos")
        assert (len(found), len(failed), report.counts["failed"]) == (3, 1, 1)
        assert found | failed == {path.name for path in paths}


def test_a_large_file_that_is_no_picture_is_known_by_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lodestone.sources import content, reading

    write_photos(tmp_path / "photos", 1)
    film = tmp_path / "photos" / "film.jpg"
    with film.open("wb") as file:
        file.write(b"\0\0\0\x18ftypmp42")
        file.truncate(content.READ_WHOLE_BYTES + 1)
    hashed = []

    def counting(file: object) -> str:
        hashed.append(os.fstat(file.fileno()).st_size)  # type: ignore[attr-defined]
        return original(file)  # type: ignore[arg-type]

    original = content.hash_stream
    monkeypatch.setattr(content, "hash_stream", counting)
    monkeypatch.setattr(reading, "hash_stream", counting)
    with open_runtime(tmp_path) as runtime:
        _, found, failed = _outcome(runtime, tmp_path / "photos")
        assert (found, failed) == ({"000000.jpg"}, {"film.jpg"})
        assert content.READ_WHOLE_BYTES + 1 not in hashed
        again, _, _ = _outcome(runtime, tmp_path / "photos")
        assert again.counts["unchanged"] == 2
        with film.open("r+b") as file:
            file.truncate(content.READ_WHOLE_BYTES + 2)
        changed, _, failed = _outcome(runtime, tmp_path / "photos")
        assert (changed.counts["changed"], failed) == (1, {"film.jpg"})
