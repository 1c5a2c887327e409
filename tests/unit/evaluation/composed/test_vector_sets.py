"""Vector files and vector sets in MUST's layout: what is read, and what damaged or unfitting files are told."""

from pathlib import Path

import numpy as np
import pytest

from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone_eval.composed.modalities import AttributeModality, VectorModality
from lodestone_eval.composed.vector_files import read_floats, read_integers, read_rows, write_vectors
from lodestone_eval.composed.vector_sets import read_vector_set, weights_of


def _ivecs(path: Path, *rows: list[int]) -> None:
    write_vectors(path, [np.array(row, np.int32) for row in rows])


def _fvecs(path: Path, rows: list[list[float]]) -> None:
    write_vectors(path, np.array(rows, np.float32))


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """Three objects and two queries: vectors, attributes, composition vectors, truths of different lengths."""
    found = tmp_path / "tiny"
    _fvecs(tmp_path / "tiny_modal1_base.fvecs", [[3, 4], [0, 2], [0, 0]])
    _fvecs(tmp_path / "tiny_modal1_query.fvecs", [[1, 0], [0, 5]])
    _fvecs(tmp_path / "tiny_modal1_2_query.fvecs", [[0, 1], [2, 0]])
    _ivecs(tmp_path / "tiny_modal2_base.ivecs", [1, 1], [1, 2], [3, 2])
    _ivecs(tmp_path / "tiny_modal2_query.ivecs", [1, 2], [0, 2])
    _ivecs(tmp_path / "tiny_gt.ivecs", [0], [1, 2])
    return found


def test_rows_are_a_length_and_little_endian_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.fvecs"
    path.write_bytes(bytes.fromhex("02000000 0000803f 00000040 02000000 00000000 000080bf"))
    assert read_floats(path).tolist() == [[1.0, 2.0], [0.0, -1.0]]
    assert read_floats(path, limit=1).tolist() == [[1.0, 2.0]]
    rows = tmp_path / "b.ivecs"
    _ivecs(rows, [7], [], [8, -9])
    assert rows.read_bytes().hex() == "0100000007000000000000000200000008000000f7ffffff"
    assert [row.tolist() for row in read_rows(rows)] == [[7], [], [8, -9]]
    assert len(read_rows(rows, limit=2)) == 2


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "it is empty"),
        (b"\x02\0\0\0\0\0\0", "no whole number"),
        (b"\x02\0\0\0" + b"\0" * 4, "ends within row 0: 2 numbers expected, 1 there"),
        (b"\x01\0\0\0" + b"\0" * 4 + b"\x01\0\0\0", "ends within row 1"),
        (b"\x01\0\0\0" + b"\0" * 4 + b"\x02\0\0\0" + b"\0" * 8, "row 1 claims to hold 2 numbers, the first 1"),
        (b"\xff\xff\xff\xff", "row 0 claims to hold -1 numbers"),
        (b"\0\0\0\x7f", "row 0 claims to hold"),
        (b"\x01\0\0\0\0\0\xc0\x7f", "row 0 holds a number that is not finite"),
    ],
)
def test_damaged_files_are_told_where(content: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "damaged.fvecs"
    path.write_bytes(content)
    with pytest.raises(InvalidRequestError, match=problem) as caught:
        read_floats(path)
    assert str(path) in caught.value.message
    assert "32-bit" in caught.value.hint


def test_truncated_rows_of_any_length_are_told_where(tmp_path: Path) -> None:
    path = tmp_path / "gt.ivecs"
    path.write_bytes(b"\x01\0\0\0\x05\0\0\0\x03\0\0\0\x01\0\0\0")
    with pytest.raises(InvalidRequestError, match="ends within row 1: 3 numbers expected, 1 there"):
        read_rows(path)
    path.write_bytes(b"\xfe\xff\xff\xff")
    with pytest.raises(InvalidRequestError, match="row 0 claims to hold -2"):
        read_rows(path)
    with pytest.raises(NotFoundError):
        read_integers(tmp_path / "nowhere.ivecs")
    with pytest.raises(InvalidRequestError, match="no file of vectors"):
        write_vectors(tmp_path / "a.npy", [])


def test_a_set_is_read_in_the_published_layout(prefix: Path) -> None:
    found = read_vector_set(prefix)
    first, second = found.modalities
    assert isinstance(first, VectorModality)
    assert isinstance(second, AttributeModality)
    assert first.base == pytest.approx(np.array([[0.6, 0.8], [0, 1], [0, 0]]))
    assert first.asked == pytest.approx(np.array([[1, 0], [0, 1]]))
    assert (found.name, found.objects, found.queries, found.equally_right) == ("tiny", 3, 2, False)
    assert found.truths is not None
    assert [row.tolist() for row in found.truths] == [[0], [1, 2]]
    similarities = first.similarities(0)
    assert similarities is not None
    assert similarities.tolist() == pytest.approx([0.6, 0.0, np.nan], nan_ok=True)  # the third object has no picture vector
    assert [found.right(1, wanted).__len__() for wanted in (1, 2, 3)] == [1, 2, 2]


def test_composition_vectors_replace_the_target_where_asked_or_where_alone(prefix: Path) -> None:
    composed = read_vector_set(prefix, composed=True).modalities[0]
    assert isinstance(composed, VectorModality)
    assert composed.asked.tolist() == [[0, 1], [1, 0]]
    prefix.with_name("tiny_modal1_query.fvecs").unlink()
    alone = read_vector_set(prefix).modalities[0]
    assert isinstance(alone, VectorModality)
    assert alone.asked.tolist() == [[0, 1], [1, 0]]
    prefix.with_name("tiny_modal1_2_query.fvecs").unlink()
    with pytest.raises(NotFoundError, match=r"tiny_modal1_query\.fvecs"):
        read_vector_set(prefix)


def test_files_that_encoders_share_lie_one_folder_above(prefix: Path) -> None:
    below = prefix.parent / "resnet_encode" / "tiny"
    below.parent.mkdir()
    for path in prefix.parent.glob("tiny_modal1_*"):
        path.rename(below.parent / path.name)
    assert len(read_vector_set(below).modalities) == 2


def test_objects_to_leave_out_come_with_equally_right_ones(prefix: Path) -> None:
    _ivecs(prefix.with_name("tiny_delete_id.ivecs"), [2], [])
    found = read_vector_set(prefix)
    assert found.equally_right
    assert (found.left_out(0).tolist(), found.left_out(1).tolist()) == ([2], [])
    assert found.right(1, 1) == {1, 2}
    assert not read_vector_set(prefix, equally_right=False).equally_right


def test_the_share_of_equal_attributes_is_an_inner_product_of_columns(prefix: Path) -> None:
    for skipped, expected in ((None, [[0.5, 1.0, 0.5], [0.0, 0.5, 0.5]]), (0, [[0.5, 1.0, 0.5], [0.0, 0.5, 0.5]])):
        modality = read_vector_set(prefix, skipped=skipped).modalities[1]
        found = [modality.similarities(query) for query in range(2)]
        assert np.array(found) == pytest.approx(np.array(expected))
        base, asked = modality.columns()
        assert np.linalg.norm(base, axis=1) == pytest.approx(1)
        assert np.linalg.norm(asked, axis=1) == pytest.approx(1)
        assert asked @ base.T == pytest.approx(np.array(expected), abs=1e-6)


def test_an_open_attribute_is_never_equal(tmp_path: Path) -> None:
    modality = AttributeModality("words", np.array([[0, 1], [0, 2]], np.int32), np.array([[0, 1], [0, 0]], np.int32), 0)
    assert np.array(modality.similarities(0)) == pytest.approx([0.5, 0.0])
    assert modality.similarities(1) is None
    base, asked = modality.columns()
    assert asked @ base.T == pytest.approx(np.array([[0.5, 0.0], [0.0, 0.0]]))
    assert np.linalg.norm(asked, axis=1) == pytest.approx([1, 0])  # the second names nothing


def test_an_attribute_that_no_object_has_is_nowhere_equal_and_is_not_open() -> None:
    modality = AttributeModality("words", np.array([[0, 1], [0, 2]], np.int32), np.array([[7, 0]], np.int32), 0)
    assert np.array(modality.similarities(0)) == pytest.approx([0.0, 0.0])
    base, asked = modality.columns()
    assert asked @ base.T == pytest.approx(np.zeros((1, 2)))
    assert np.linalg.norm(asked) == pytest.approx(1)


@pytest.mark.parametrize(
    ("file", "rows", "problem"),
    [
        ("modal1_query.fvecs", [[1.0, 0, 0], [0, 1, 0]], "objects have 2 columns in modality1, and queries 3"),
        ("modal2_base.ivecs", [[1, 1], [1, 2]], "modality2 has 2 objects, and modality1 3"),
        ("modal2_query.ivecs", [[1, 1]], "modality2 has 1 queries, and modality1 2"),
        ("modal1_2_query.fvecs", [[1.0, 0]], "the composition vectors have the shape"),
        ("gt.ivecs", [[0]], "right objects for 1 queries"),
        ("gt.ivecs", [[0], [3]], "right objects of query 1 are not all among the 3"),
        ("delete_id.ivecs", [[0], [-1]], "objects to leave out of query 1"),
    ],
)
def test_files_that_do_not_fit_each_other_are_refused(file: str, rows: list[list[float]], problem: str, prefix: Path) -> None:
    path = prefix.with_name(f"tiny_{file}")
    if path.suffix == ".fvecs":
        _fvecs(path, rows)
    else:
        _ivecs(path, *([int(number) for number in row] for row in rows))
    with pytest.raises(InvalidRequestError, match=problem):
        read_vector_set(prefix)


def test_a_missing_file_shows_the_layout(tmp_path: Path, prefix: Path) -> None:
    with pytest.raises(NotFoundError, match=r"nowhere_modal1_base\.fvecs") as caught:
        read_vector_set(tmp_path / "nowhere")
    assert caught.value.hint.startswith("expected: PREFIX_modal1_base.fvecs")
    prefix.with_name("tiny_modal2_query.ivecs").unlink()
    with pytest.raises(NotFoundError, match=r"tiny_modal2_query\.ivecs"):
        read_vector_set(prefix)


def test_weights_are_squares_that_sum_to_1(prefix: Path) -> None:
    found = read_vector_set(prefix)
    assert weights_of(found, (1, 3)).tolist() == [0.25, 0.75]
    for wrong in ((1.0,), (0.0, 0.0), (-1.0, 2.0), (float("nan"), 1.0)):
        with pytest.raises(InvalidRequestError):
            weights_of(found, wrong)
