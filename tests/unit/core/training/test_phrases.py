"""Noun phrases are cut out of captions, belong to the pictures of these, and are shown to the towers in their share."""

from __future__ import annotations

import numpy as np
import pytest

from lodestone.training.phrases import PhrasePairs, in_templates, noun_phrases, phrase_pairs
from lodestone.training.towers import Pairs

CAPTIONS = [
    "A brown dog is chasing a red frisbee .",
    "a small dog with a frisbee",
    "Two horses stand behind a wooden fence",
    "a horse jumping over the fence beside another horse",
    "Several people on a beach",
]


def of(number: int, captions: list[str] = CAPTIONS) -> list[str]:
    found = noun_phrases(captions)
    return [found.texts[phrase] for phrase, caption in zip(found.phrase, found.caption, strict=True) if caption == number]


def test_a_piece_ends_at_its_last_noun_and_gives_its_last_words() -> None:
    assert of(0) == ["dog", "brown dog", "frisbee", "red frisbee"]
    assert of(1) == ["dog", "small dog", "frisbee"]


@pytest.mark.parametrize(
    ("number", "phrases"), [(2, ["horses", "fence", "wooden fence"]), (3, ["horse", "fence"]), (4, ["people"])]
)
def test_plurals_of_nouns_and_words_without_a_plural_are_nouns_and_rare_words_are_none(number: int, phrases: list[str]) -> None:
    assert of(number) == phrases


def test_a_word_that_rarely_ends_a_piece_is_no_noun() -> None:
    captions = ["a red", "the red", *["a red ball"] * 7, "a ball"]
    assert "red" not in noun_phrases(captions).texts
    assert "red" in noun_phrases(captions[:7]).texts


def test_phrases_have_three_words_at_most() -> None:
    captions = ["a big old brown dog", "a dog", "the dog"]
    assert of(0, captions) == ["dog", "brown dog", "old brown dog"]


def test_captions_of_another_language_and_none_yield_nothing() -> None:
    assert noun_phrases(["Ein Hund läuft am Strand", "一只狗", ""]).texts == []
    nothing = noun_phrases([])
    assert in_templates(nothing) == []
    assert phrase_pairs(nothing, np.zeros((0, 4), np.float32), np.zeros(0, np.intp)) is None


def test_a_phrase_knows_its_singular_where_the_captions_have_it() -> None:
    phrases = noun_phrases(
        [*CAPTIONS, "two buses beside a bus", "the bus", "a box", "the box", "the boxes", "a glass", "a glass"]
    )
    singular = {text: phrases.texts[one] for text, one in zip(phrases.texts, phrases.singular, strict=True)}
    assert {text: one for text, one in singular.items() if text != one} == {"horses": "horse", "buses": "bus", "boxes": "box"}


def test_each_phrase_stands_once_in_each_template_and_belongs_once_to_a_picture() -> None:
    phrases = noun_phrases(CAPTIONS)
    texts = phrases.texts
    assert in_templates(phrases) == [*texts, *(f"a photo of a {text}" for text in texts)]
    vectors = np.arange(2 * len(texts), dtype=np.float32)[:, None] * np.ones(4, np.float32)
    pairs = phrase_pairs(phrases, vectors, np.array([0, 0, 1, 1, 5]))
    assert pairs is not None
    assert pairs.texts[:, :, 0].tolist() == [list(range(len(texts))), list(range(len(texts), 2 * len(texts)))]
    owned = sorted((owner, texts[phrase]) for owner, phrase in zip(pairs.owner.tolist(), pairs.phrase, strict=True))
    assert owned == [
        *[(0, text) for text in ("brown dog", "dog", "frisbee", "red frisbee", "small dog")],
        *[(1, text) for text in ("fence", "horse", "horses", "wooden fence")],
        (5, "people"),
    ]
    assert pairs.of(np.array([2, 3])) is None
    kept = pairs.of(np.array([1, 5]))
    assert kept is not None
    assert kept.owner.tolist().count(0) == 4 and kept.owner.tolist().count(1) == 1 and len(kept.phrase) == 5


def test_pictures_are_shown_with_a_phrase_in_its_share_and_those_without_one_never() -> None:
    phrases = PhrasePairs(
        np.stack([np.full((1, 2), 5.0), np.full((1, 2), 7.0)]).astype(np.float32), np.array([0]), np.array([1]), np.array([0])
    )
    pairs = Pairs(np.zeros((3, 1), np.float32), np.ones((3, 2), np.float32), np.arange(3), phrases, 0.4)
    drawn = pairs.sampler()(np.random.default_rng(0), np.repeat(np.arange(3), 4_000))[1][:, 0].reshape(3, -1)
    assert set(drawn[0]) == set(drawn[2]) == {1.0}
    assert (drawn[1] != 1).mean() == pytest.approx(0.4, abs=0.03)
    assert (drawn[1] == 7).mean() == pytest.approx(0.12, abs=0.02)
