"""A text is a learnt word, in part or not at all, by its vector: bare or as a photo of it."""

from __future__ import annotations

import numpy as np
import pytest

from lodestone.spaces.learnt_words import LearntWords

D, DIM = 4, 3
SHIFT = np.array([0.0, 0.0, 3.0, 0.0], np.float32)
WORDS = LearntWords(np.eye(D, dtype=np.float32)[:, :2], np.array([[1, 4], [2, 5], [3, 6]], np.float32), SHIFT)


def at(cosine: float, word: int = 0) -> np.ndarray:
    """Return the vector of a text with this cosine to one word and none to the other."""
    row = np.zeros((1, D), np.float32)
    row[0, word], row[0, 3] = cosine, (1 - cosine**2) ** 0.5
    return row


@pytest.mark.parametrize(("cosine", "share"), [(0.1, 0), (0.79, 0), (0.85, 0.5), (0.875, 0.75), (0.91, 1), (1.0, 1)])
@pytest.mark.parametrize("word", [0, 1])
def test_a_text_is_a_word_as_far_as_its_cosine_lies_between_unknown_and_known(word: int, cosine: float, share: float) -> None:
    found, shares = WORDS.recognised(at(cosine, word))
    assert found.tolist() == [word]
    assert shares == pytest.approx([share], abs=1e-5)
    np.testing.assert_allclose(WORDS.added_to(at(cosine, word)), share * WORDS.vectors[:, [word]].T, atol=1e-4)


def test_a_photo_of_a_word_is_the_word() -> None:
    photo_of = at(1.0, 1) + SHIFT
    photo_of /= np.linalg.norm(photo_of)
    assert WORDS.recognised(photo_of)[1].tolist() == [
        0
    ]  # at the length of text vectors the shift counts for more than the word
    near = LearntWords(WORDS.texts, WORDS.vectors, photo_of[0] - at(1.0, 1)[0])
    assert near.recognised(photo_of) == (np.array([1]), pytest.approx([1]))


def test_texts_are_recognised_one_by_one() -> None:
    rows = np.vstack([at(0.95, 1), at(0.1), at(0.95)])
    word, share = WORDS.recognised(rows)
    assert (word[[0, 2]].tolist(), share.tolist()) == ([1, 0], [1, 0, 1])
    assert WORDS.added_to(rows).shape == (3, DIM)
    assert len(WORDS) == 2
