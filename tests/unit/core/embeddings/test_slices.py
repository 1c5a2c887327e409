"""A slice's files are whole or absent, readable by others, and honest about damage."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lodestone.catalog.identity import caption_id
from lodestone.catalog.records import Receipt
from lodestone.embeddings.slices import (
    find_part,
    fingerprint,
    part_path,
    read_part,
    remove_corpus_files,
    remove_leftovers,
    write_part,
)
from lodestone.embeddings.tables import captions_table, matrix_of, meta_table, outputs_from, outputs_table
from lodestone.errors import EmbeddingsDamagedError, OutOfSpaceError
from lodestone.files.opening import open_area
from lodestone_schemas.arrow import META_SCHEMA, captions_schema

CORPUS = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
IDS = [f"00000000-0000-0000-0000-{number:012}" for number in range(256)]
HASHES = [f"{number:064x}" for number in range(256)]
FP = fingerprint(list(zip(IDS, HASHES, strict=True)), "decoder-1")
PART = "lite0-abc123"


def _outputs() -> dict[str, Any]:
    random = np.random.default_rng(7)
    return {
        "features": random.normal(size=(256, 320)).astype(np.float16),
        "probabilities": random.random((256, 50)).astype(np.float16),
    }


def _write(root: Path, table: pa.Table | None = None) -> Receipt:
    written = write_part(open_area(root), CORPUS, FP, PART, outputs_table(IDS, HASHES, _outputs()) if table is None else table)
    return Receipt("slice", PART, written.path, written.rows, written.size, written.checksum, 1.0)


def test_outputs_come_back_bit_for_bit_without_a_copy(tmp_path: Path) -> None:
    receipt = _write(tmp_path)
    table = read_part(open_area(tmp_path), receipt, verify=True)
    ids, hashes, outputs = outputs_from(table)
    assert (ids, hashes) == (IDS, HASHES)
    for name, matrix in _outputs().items():
        assert outputs[name].dtype == np.float16
        np.testing.assert_array_equal(outputs[name], matrix)
    buffer = table.column("features").chunk(0).flatten().buffers()[1]
    assert outputs["features"].ctypes.data == buffer.address
    assert receipt.rows == 256
    assert receipt.size == (tmp_path / receipt.path).stat().st_size


def test_a_table_shares_memory_with_the_arrays_it_is_made_of() -> None:
    matrix = np.ones((2, 8), np.float16)
    assert (
        outputs_table(IDS[:2], HASHES[:2], {"v": matrix}).column("v").chunk(0).flatten().buffers()[1].address
        == matrix.ctypes.data
    )


def test_some_columns_can_be_read_alone(tmp_path: Path) -> None:
    table = read_part(open_area(tmp_path), _write(tmp_path), columns=["image_id", "probabilities"])
    ids, hashes, outputs = outputs_from(table)
    assert (ids, hashes, list(outputs)) == (IDS, [], ["probabilities"])


def test_files_are_plain_parquet_with_fixed_size_half_lists(tmp_path: Path) -> None:
    path = tmp_path / _write(tmp_path).path
    plain = pq.read_table(path)
    assert plain.schema.field("features").type == pa.list_(pa.field("element", pa.float16(), nullable=False), 320)
    stored = pq.ParquetFile(path).metadata.row_group(0)
    assert all(not stored.column(i).has_dictionary_page for i in range(stored.num_columns))
    assert path == tmp_path / CORPUS / FP[:2] / f"{FP}.{PART}.parquet"


def test_schema_metadata_names_what_made_the_file(tmp_path: Path) -> None:
    table = outputs_table(IDS, HASHES, _outputs(), metadata={"backbone": "lite0", "version": "abc123"})
    found = read_part(open_area(tmp_path), _write(tmp_path, table)).schema.metadata
    assert found[b"backbone"] == b"lite0"
    assert found[b"version"] == b"abc123"


@pytest.mark.parametrize("rows", [0, 1])
def test_small_and_empty_slices_work(tmp_path: Path, rows: int) -> None:
    table = outputs_table(IDS[:rows], HASHES[:rows], {"v": np.ones((rows, 4), np.float16)})
    assert matrix_of(read_part(open_area(tmp_path), _write(tmp_path, table), verify=True), "v").shape == (rows, 4)
    captions = captions_table([], np.empty((0, 384), np.float32))
    assert read_part(open_area(tmp_path), _write(tmp_path, captions)).schema.equals(captions_schema(384))


def test_part_of_a_table_is_a_read_only_view_of_its_rows() -> None:
    vectors = np.arange(40, dtype=np.float16).reshape(10, 4)
    table = outputs_table([str(row) for row in range(10)], ["h"] * 10, {"v": vectors})
    part = matrix_of(table.slice(3, 5), "v")
    np.testing.assert_array_equal(part, vectors[3:8])
    assert not part.flags.writeable
    np.testing.assert_array_equal(matrix_of(pa.concat_tables([table.slice(8), table.slice(0, 2)]), "v"), vectors[[8, 9, 0, 1]])


def test_vectors_with_nulls_are_refused() -> None:
    holed = pa.table({"v": pa.FixedSizeListArray.from_arrays(pa.array([1, None], pa.float16()), 1)})
    with pytest.raises(ValueError, match="'v' has 1 nulls"):
        matrix_of(holed, "v")


def test_reading_vectors_does_not_import_pandas(tmp_path: Path) -> None:
    written = _write(tmp_path)
    name = next(iter(_outputs()))
    program = (
        "import sys; import pyarrow.parquet as pq; from lodestone.embeddings.tables import matrix_of; "
        "assert matrix_of(pq.ParquetFile(sys.argv[1]).read(), sys.argv[2]).size; assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / written.path, name], check=True)


def test_arrays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="float32"):
        outputs_table(IDS[:2], HASHES[:2], {"v": np.ones((2, 4), np.float32)})  # type: ignore[dict-item]  # (the point)
    with pytest.raises(ValueError, match="expected float16"):
        outputs_table(IDS[:3], HASHES[:3], {"v": np.ones((2, 4), np.float16)})
    with pytest.raises(ValueError, match="1 hashes"):
        outputs_table(IDS[:2], HASHES[:1], {"v": np.ones((2, 4), np.float16)})


def test_captions_carry_their_own_ids(tmp_path: Path) -> None:
    rows = [(IDS[0], "table", "ein Hund 🐕"), (IDS[0], "sidecar", "ein Hund 🐕"), (IDS[1], "xmp", "a cat")]
    vectors = np.random.default_rng(1).normal(size=(3, 384)).astype(np.float32)
    table = read_part(open_area(tmp_path), _write(tmp_path, captions_table(rows, vectors)))
    assert table.column("caption_id").to_pylist() == [caption_id(*row) for row in rows]
    assert len(set(table.column("caption_id").to_pylist())) == 3
    np.testing.assert_allclose(matrix_of(table, "vector"), vectors, atol=2e-3)


def test_meta_rows_keep_what_is_known_and_leave_the_rest_null(tmp_path: Path) -> None:
    fine = {"image_id": IDS[0], "uri": "ä/1.jpg", "hash": HASHES[0], "size": 2**40, "mtime_ns": 1_700_000_000_123_456_789,
            "taken_at": -1, "latitude": 47.5, "captions": [{"source": "xmp", "text": "a cat"}]}  # fmt: skip
    bad = {"image_id": IDS[1], "uri": "2.jpg", "hash": HASHES[1], "size": 0, "mtime_ns": 0, "error_code": "truncated"}
    table = read_part(open_area(tmp_path), _write(tmp_path, meta_table([fine, bad])))
    assert table.schema.equals(META_SCHEMA)
    first, second = table.to_pylist()
    assert fine.items() <= first.items()
    assert first["error_code"] is None
    assert second["error_code"] == "truncated"
    with pytest.raises(ValueError, match="colour"):
        meta_table([{"colour": "red"}])


def test_the_fingerprint_names_contents_not_order() -> None:
    rows = [("a", "1"), ("b", "2")]
    assert fingerprint(rows, "d1") == fingerprint(rows[::-1], "d1")
    others = [fingerprint(rows, "d2"), fingerprint([("a", "1"), ("b", "3")], "d1"), fingerprint([("a1", ""), ("b", "2")], "d1")]
    assert len({fingerprint(rows, "d1"), *others}) == 4
    assert len(fingerprint([], "d1")) == 32


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "nul\0"])
def test_names_that_would_leave_the_folder_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="file name"):
        part_path(CORPUS, FP, name)


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "flipped", "other"])
def test_damage_is_a_clear_error_with_a_way_out(tmp_path: Path, damage: str) -> None:
    receipt = _write(tmp_path)
    path = tmp_path / receipt.path
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "truncated":
        path.write_bytes(content[:-100])
    elif damage == "flipped":
        content[len(content) // 2] ^= 0xFF  # the page's checksum tells, without `verify`
        path.write_bytes(content)
    else:
        path.write_bytes(b"x" * len(content))
    with pytest.raises(EmbeddingsDamagedError) as caught:
        read_part(open_area(tmp_path), receipt)
    assert caught.value.code == "embeddings_damaged"
    assert "lodestone index" in caught.value.hint
    assert receipt.path in str(caught.value)
    if damage != "missing":
        assert find_part(open_area(tmp_path), CORPUS, FP, PART, slice_id="slice") is None


def test_verify_notices_a_sound_file_that_is_another_one(tmp_path: Path) -> None:
    receipt = _write(tmp_path)
    changed = _outputs()
    changed["features"] = changed["features"][::-1].copy()
    other = _write(tmp_path, outputs_table(IDS, HASHES, changed))
    forged = Receipt("slice", PART, receipt.path, 256, other.size, receipt.checksum, 0.0)
    with pytest.raises(EmbeddingsDamagedError, match="checksum"):
        read_part(open_area(tmp_path), forged, verify=True)


def test_a_part_without_a_receipt_is_found_on_disk(tmp_path: Path) -> None:
    assert find_part(open_area(tmp_path), CORPUS, FP, PART, slice_id="slice") is None
    written = _write(tmp_path)
    found = find_part(open_area(tmp_path), CORPUS, FP, PART, slice_id="slice")
    assert found is not None
    assert (found.path, found.rows, found.size, found.checksum) == (written.path, 256, written.size, written.checksum)


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = _write(tmp_path)

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutOfSpaceError) as caught:
        write_part(open_area(tmp_path), CORPUS, FP, "meta", outputs_table(IDS, HASHES, _outputs()))
    assert caught.value.hint
    monkeypatch.undo()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()] == [kept.path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_device_that_is_really_full_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open
    monkeypatch.setattr(Path, "open", lambda self, *args, **kw: opened(Path("/dev/full"), *args, **kw))
    with pytest.raises(OutOfSpaceError):
        write_part(open_area(tmp_path), CORPUS, FP, PART, outputs_table(IDS, HASHES, _outputs()))


def test_other_write_errors_are_not_called_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        _write(tmp_path)


def test_a_corpus_files_and_leftovers_can_be_removed(tmp_path: Path) -> None:
    receipt = _write(tmp_path)
    leftover = (tmp_path / receipt.path).parent / ".x.parquet.0123.part"
    leftover.write_bytes(b"half")
    assert remove_leftovers(open_area(tmp_path), CORPUS) == 1
    assert not leftover.exists()
    assert (tmp_path / receipt.path).exists()
    remove_corpus_files(open_area(tmp_path), CORPUS)
    remove_corpus_files(open_area(tmp_path), CORPUS)
    assert list(tmp_path.iterdir()) == []
    assert remove_leftovers(open_area(tmp_path), CORPUS) == 0
