"""Matrices as bytes with a scale a column: near to what they were, and the same bytes when they are stored again."""

from __future__ import annotations

import numpy as np
import pytest

from lodestone.models.weights_file import as_bytes, from_bytes


@pytest.mark.parametrize("seed", range(20))
def test_numbers_are_off_by_half_a_step_at_most_and_bytes_stay_what_they_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = 10.0 ** rng.integers(-6, 4, 40)
    matrix = (rng.normal(size=(rng.integers(1, 200), 40)) * size).astype(np.float32)
    rows, scale = as_bytes(matrix)
    read = from_bytes(rows, scale)
    assert (rows.dtype, read.dtype) == (np.int8, np.float32)
    assert np.abs(rows).max(axis=0).tolist() == [127] * 40  # the whole range, and -128 never
    assert (np.abs(read - matrix) <= 0.5001 * scale).all()
    again, same_scale = as_bytes(read)
    np.testing.assert_array_equal(again, rows)
    np.testing.assert_array_equal(same_scale, scale)


def test_columns_of_zeros_and_matrices_without_rows_stay_so() -> None:
    assert from_bytes(*as_bytes(np.zeros((3, 2), np.float32))).tolist() == [[0, 0]] * 3
    assert from_bytes(*as_bytes(np.zeros((0, 2), np.float32))).shape == (0, 2)
