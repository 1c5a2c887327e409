"""Benchmark of the rule for queries of one word: its nouns, its judgements, and which answer a bound takes."""

from __future__ import annotations

import numpy as np
from research.studies.caption_words import Answered, Truth, metrics, nouns

CAPTIONS = [
    ["A dog on a beach .", "Two dogs run .", "The dog is wet ."],
    ["A cat in a house .", "A cat with a ball .", "A cat ."],
]


def test_nouns_stand_between_an_article_and_a_preposition_or_verb() -> None:
    captions = ["A dog in the snow .", "the Dog is running", "A brown cow on the snow .", "the brown cow", "a jumping dog"]
    assert nouns(captions) == {"dog", "snow"}


def test_a_word_that_is_a_noun_only_by_chance_is_none() -> None:
    captions = ["a black .", "a black .", *["a black dog ."] * 19]
    assert "black" not in nouns(captions)
    assert "black" in nouns(captions[:-1])


def test_pictures_are_judged_by_captions_that_none_was_indexed_with() -> None:
    truth = Truth.of(CAPTIONS, frozenset({"dog", "dogs", "cat", "beach", "ball", "house"}), each=1)

    assert truth.queries == ("ball", "cat", "dog")  # the beach and the house are in first captions alone; of dog and dogs, one
    right = {name: judgement.tolist() for name, judgement in truth.judgements.items()}
    assert right["any"] == right["unseen"] == [[False, True], [False, True], [True, False]]
    assert right["twice"] == [[False, False], [False, True], [True, False]]


def test_the_rule_answers_where_no_more_captions_hold_the_word_than_the_bound() -> None:
    home = Answered(np.array([2, 3, 0]), without=np.zeros((3, 2), np.int64), scored={15.0: np.ones((3, 2), np.int64)})
    assert home.bounded(2, 15.0)[:, 0].tolist() == [1, 0, 1]


def test_missing_results_are_not_right() -> None:
    values = metrics(np.array([[1, -1]]), np.array([[True, True]]))
    assert values["P@1"].tolist() == [1.0]
    assert values["R@10"].tolist() == [0.5]
    assert values["MAP"].tolist() == [0.5]
