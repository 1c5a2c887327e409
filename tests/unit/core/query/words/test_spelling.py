"""Correction of misspelt words: what is corrected to what, and what is left alone."""

import random
import re
import string

import pytest

from lodestone.query.words.spelling import _NEXT_TO, Lexicon, correct
from lodestone.text_encoders.english import english_counts, picture_words, words_of
from lodestone.text_encoders.labels import imagenet_labels


@pytest.fixture(scope="module")
def lexicon():
    return Lexicon(english_counts(), words_of(imagenet_labels()), picture_words(), frozenset({"skai", "zuzka"}))


@pytest.mark.parametrize(
    ("asked", "searched"),
    [
        ("brwon dog on the beech", "brown dog on the beech"),  # a beech is a tree
        ("two dgos runing on a beach", "two dogs running on a beach"),
        ("a birtday cake", "a birthday cake"),
        ("A man climbng a mountan", "A man climbing a mountain"),
        ("Brwon dog", "Brown dog"),
        ("blackdog in the snow", "black dog in the snow"),
        ("teh dgo", "the dog"),
        ("labrador retreiver", "labrador retriever"),
        ("the brwon dog's ball", "the brown dog's ball"),
        ("a whtie-haired man, smilling", "a white-haired man, smiling"),
    ],
)
def test_misspelt_words_become_the_likeliest_known_ones(lexicon, asked, searched):
    correction = correct(asked, lexicon)
    assert correction is not None
    assert correction.text == searched


@pytest.mark.parametrize(
    "asked",
    [
        "two dogs running on a beach",
        "komondor",  # a class name
        "zuzka in the skai",  # the encoder knows both
        "a picture of Zuska and Petrr",  # names
        "Petrr",
        "NASA rocet"[:4],
        "iPhnoe",
        "bmx race",  # a short word, no letters swapped
        "IMG2041 r2d2",
        "frisbees",
        "собака на пляже",
        "café",
        "asdkjh qwe",  # no word is near
        "2019",
        "",
    ],
)
def test_known_words_names_short_words_and_other_letters_are_never_corrected(lexicon, asked):
    assert correct(asked, lexicon) is None


def test_the_collections_own_words_are_known_and_preferred(lexicon):
    assert correct("brwon", lexicon, own=lambda: {"brwon"}) is None
    assert correct("a skiff with lampin", lexicon).text != "a skiff with lampion"
    assert correct("a skiff with lampin", lexicon, own=lambda: {"lampion"}).text == "a skiff with lampion"


def test_the_collections_words_are_read_only_where_a_word_is_unknown(lexicon):
    def read():
        raise AssertionError("read for a query whose words are all known")

    assert correct("two dogs running", lexicon, own=read) is None


def test_most_slips_of_one_letter_in_a_words_middle_are_undone(lexicon):
    rng = random.Random(4)
    words = ["bicycle", "mountain", "umbrella", "children", "elephant", "building", "sunglasses", "waterfall", "skateboard"]
    undone = 0
    for _ in range(200):
        word = rng.choice(words)
        place = rng.randrange(1, len(word) - 1)
        letter = rng.choice(string.ascii_lowercase)
        slip = rng.choice([word[:place] + word[place + 1 :], word[:place] + letter + word[place:]])
        correction = correct(f"a {slip}", lexicon)
        undone += slip == word or (correction is not None and correction.text == f"a {word}")
    assert undone >= 190


def test_what_stands_between_the_words_stays(lexicon):
    text = "brwon, (dgos)  &  “mountan”!"
    assert re.sub(r"\w", "", correct(text, lexicon).text) == re.sub(r"\w", "", text)


@pytest.mark.parametrize(
    ("letter", "beside"),
    [("s", "adqwezxc"), ("a", "sqwzx"), ("p", "ol"), ("q", "was"), ("l", "kiop"), ("z", "xas"), ("m", "nhjk")],
)
def test_keys_beside_a_letter_are_those_left_right_above_and_below(letter: str, beside: str) -> None:
    assert _NEXT_TO[letter] == set(beside)
