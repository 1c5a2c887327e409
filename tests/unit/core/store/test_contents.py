"""The record of a collection's files tells of each alteration, and of nothing where files are as they were written."""

from __future__ import annotations

import json
import os
import struct
import uuid
import zlib
from pathlib import Path

import pytest

from lodestone.store.edge import contents
from lodestone.store.edge.contents import CONTENTS_FILE, STALE_FILE, ContentRecord, read_facts
from lodestone.store.edge.generation import MAPPINGS_FILE, wrong_mapping
from lodestone.store.edge.probe import run_probe

SEGMENT = "segments/1f"
SEALED = f"{SEGMENT}/vector_storage/matrix.dat"
OPEN = "segments/2e/vector_storage/chunk_0.mmap"
LOG = "wal/open-1"


@pytest.fixture
def generation(tmp_path: Path) -> Path:
    """A folder like an engine's: a sealed segment, one that takes points, a log, and a file of the generation's own."""
    for name in (SEALED, f"{SEGMENT}/id_tracker.mappings", f"{SEGMENT}/segment.json", OPEN, LOG):
        path = tmp_path / "shard" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * 40)
    (tmp_path / "built.json").write_text("{}")
    _record(tmp_path).renew(written=True)
    return tmp_path


def _record(generation: Path, collection: str = "bridge-1") -> ContentRecord:
    return ContentRecord(generation, collection=collection, shard="shard", own=("built.json",))


def _flip(path: Path, at: int = -1, bit: int = 0) -> None:
    """Alter one bit; size and time stay."""
    times = path.stat()
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _paths(generation: Path) -> dict[str, Path]:
    shard = generation / "shard"
    files = {path.relative_to(shard).as_posix(): path for path in shard.rglob("*") if path.is_file()}
    return {**files, "built.json": generation / "built.json"}


def test_one_altered_bit_anywhere_is_told_of(generation: Path) -> None:
    assert _record(generation).holds
    for name, path in _paths(generation).items():
        for at in (0, -1):
            _flip(path, at, bit=7)
            assert _record(generation).damage() == f"the file {name!r} was altered: its checksum is not the recorded one"
            _flip(path, at, bit=7)
    assert _record(generation).damage() is None


def test_a_cut_and_a_lost_file_are_told_of(generation: Path) -> None:
    for name, path in _paths(generation).items():
        content = path.read_bytes()
        path.write_bytes(content[:-1])
        assert f"{name!r} has {len(content) - 1:,} bytes and had {len(content):,}" in (_record(generation).damage() or "")
        path.unlink()
        assert _record(generation).damage() == f"the file {name!r} is missing"
        path.write_bytes(content)
    assert _record(generation).damage() is None


def test_a_stale_record_judges_only_what_no_write_changes(generation: Path) -> None:
    record = _record(generation)
    record.suspend(durable=True)
    assert not record.holds
    assert ((generation / STALE_FILE).exists(), (generation / CONTENTS_FILE).exists()) == (True, False)
    paths = _paths(generation)
    _flip(paths[OPEN])
    _flip(paths[LOG])
    paths[LOG].unlink()
    paths[f"{SEGMENT}/segment.json"].write_text("{}")
    stale = _record(generation)
    assert not stale.holds
    assert stale.damage() is None
    _flip(paths[SEALED])
    assert f"{SEALED!r} was altered" in (_record(generation).damage() or "")
    _flip(paths[SEALED])
    paths[OPEN].write_bytes(paths[OPEN].read_bytes()[:-1])
    assert f"{OPEN!r} has" in (_record(generation).damage() or "")


def test_a_renewed_record_holds_what_is_there_now(generation: Path) -> None:
    record = _record(generation)
    record.suspend(durable=False)
    _paths(generation)[OPEN].write_bytes(b"something new" * 300)
    flushed: list[bool] = []
    record.renew(written=True, flush=lambda: flushed.append(True))
    assert flushed == [True]
    assert _record(generation).holds
    assert _record(generation).damage() is None
    assert not (generation / STALE_FILE).exists()
    record.suspend(durable=False)
    record.renew(written=False, flush=lambda: flushed.append(False))
    assert flushed == [True]  # nothing had changed
    assert _record(generation).holds


def test_large_files_are_trusted_by_size_and_time_up_to_a_full_comparison(generation: Path) -> None:
    path = _paths(generation)[OPEN]
    path.write_bytes(os.urandom(64 << 10))
    _record(generation).renew(written=True)
    _flip(path)
    stored = min(path.stat().st_blocks * 512, path.stat().st_size)
    others = sum(min(p.stat().st_blocks * 512, p.stat().st_size) for p in _paths(generation).values()) - stored
    assert _record(generation).damage(at_most=others + stored - 1) is None
    assert "altered" in (_record(generation).damage(at_most=others + stored) or "")
    assert "altered" in (_record(generation).damage(at_most=None) or "")
    os.utime(path)  # somebody wrote it
    assert "altered" in (_record(generation).damage(at_most=0) or "")


def test_files_of_another_collection_are_told_of_also_by_a_stale_record(generation: Path) -> None:
    assert _record(generation, "labels-1").damage() == "its files are those of the collection 'bridge-1'"
    _record(generation).suspend(durable=True)
    assert _record(generation, "labels-1").damage() == "its files are those of the collection 'bridge-1'"
    assert _record(generation).damage() is None


def test_a_record_of_before_collections_were_named_is_completed_by_the_next(generation: Path) -> None:
    path = generation / CONTENTS_FILE
    record = json.loads(path.read_text("utf-8").split("\n")[0])
    del record["collection"]
    line = json.dumps(record)
    path.write_text(f"{line}\n{zlib.crc32(line.encode()):08x}\n", encoding="utf-8")
    assert _record(generation, "labels-1").damage() is None
    former = _record(generation)
    assert former.holds
    former.suspend(durable=False)
    former.renew(written=False)  # no file was changed
    assert _record(generation).damage() is None
    assert "'bridge-1'" in (_record(generation, "labels-1").damage() or "")


def test_a_damaged_record_vouches_for_nothing(generation: Path) -> None:
    path = generation / CONTENTS_FILE
    whole = path.read_bytes()
    for at in range(0, len(whole), 97):
        _flip(path, at)
        assert not _record(generation).holds
        _flip(path, at)
    assert _record(generation).holds


def test_a_record_of_another_engine_or_of_before_an_earlier_version_wrote_does_not_hold(
    generation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (generation / "sizes.json").write_text("{}")  # an earlier version opened it since
    assert not _record(generation).holds
    _record(generation).renew(written=True)
    assert _record(generation).holds
    monkeypatch.setattr(contents, "_engine", lambda: "0.0")
    _flip(_paths(generation)[SEALED])
    assert not _record(generation).holds
    assert _record(generation).damage() is None


def test_holes_count_as_the_zeros_that_they_are(tmp_path: Path) -> None:
    sparse, plain = tmp_path / "sparse", tmp_path / "plain"
    with sparse.open("wb") as file:
        file.seek(300_000)
        file.write(b"abc")
        file.truncate(1 << 20)
    plain.write_bytes(bytes(300_000) + b"abc" + bytes((1 << 20) - 300_003))
    assert read_facts(sparse).same_content(read_facts(plain))
    moved = tmp_path / "moved"
    moved.write_bytes(bytes(300_000 + (1 << 16)) + b"abc" + bytes((1 << 20) - 300_003 - (1 << 16)))
    assert not read_facts(moved).same_content(read_facts(plain))


def _inserted(row: int) -> bytes:
    return b"\x02" + uuid.UUID(int=row).bytes + struct.pack("<I", row)


def _deleted(row: int) -> bytes:
    return b"\x04" + uuid.UUID(int=row).bytes


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", None),
        (b"".join(map(_inserted, range(40))), None),
        (b"".join(map(_inserted, range(40))) + _inserted(41), "the row 41, and there are 41 rows"),
        (b"".join(map(_inserted, range(40))) + _inserted(1 << 31), "the row 2,147,483,648, and there are 41 rows"),
        (_inserted(0) + _deleted(0) + _deleted(0) + _inserted(1), None),
        (_inserted(0) + _deleted(0) + _deleted(0) + _inserted(2), "the row 2, and there are 2 rows"),
        (_inserted(0) + _inserted(1)[:-1], None),  # the last record of a killed process
        (_inserted(0) + b"\x09" + _inserted(1)[1:], "the record at byte 21 is of the unknown kind 9"),
        (b"\x01" + bytes(8) + struct.pack("<I", 0) + b"\x03" + bytes(8) + _inserted(1), None),
    ],
)
def test_a_row_beyond_all_rows_is_found_before_the_engine_makes_room_for_it(
    tmp_path: Path, content: bytes, why: str | None
) -> None:
    path = tmp_path / SEGMENT / MAPPINGS_FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    found = wrong_mapping(tmp_path)
    assert found is None if why is None else (found is not None and why in found and MAPPINGS_FILE in found)


def test_a_trial_opening_says_what_failed(tmp_path: Path) -> None:
    assert (run_probe(tmp_path) or "").startswith("a trial opening failed: ")


@pytest.mark.parametrize(
    ("written", "journal", "read"),
    [
        (False, False, {"small", "touched"}),
        (True, False, {"small", "touched", "large"}),
        (False, True, {"small", "touched", "large"}),
    ],
)
def test_only_files_that_can_have_changed_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, written: bool, journal: bool, read: set[str]
) -> None:
    """Without writes the engine changes small files, and large ones when it applies a journal."""
    sizes = {"small": 100, "large": 101, "touched": 500, "sealed/matrix.dat": 500, "sealed/id_tracker.mappings": 1}
    for name, size in sizes.items():
        path = tmp_path / "shard" / "segments" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    if journal:
        (tmp_path / "shard" / "segments" / "x_journal.dat").write_bytes(b"x")
    record = _record(tmp_path)
    record.renew(written=True)
    if journal:
        (tmp_path / "shard" / "segments" / "x_journal.dat").unlink()
    os.utime(tmp_path / "shard" / "segments" / "touched", ns=(1, 1))
    monkeypatch.setattr(contents, "_SMALL", 100)
    seen: list[str] = []
    monkeypatch.setattr(contents, "read_facts", lambda path: (seen.append(path.name), read_facts(path))[1])
    record.renew(written=written)
    assert set(seen) == read
