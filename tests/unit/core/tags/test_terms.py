"""Words become vectors whose inner product says how much of a query a picture's tags hold."""

import numpy as np
import pytest

from lodestone.store.base import SparseVector
from lodestone.tags.terms import FUNCTION_WORD, Given, PictureTag, literal_query, picture_vector, query_vector, terms


def inner(one: SparseVector | None, other: SparseVector | None) -> float:
    assert one is not None
    assert other is not None
    _, here, there = np.intersect1d(one.indices, other.indices, return_indices=True)
    return float(one.values[here] @ other.values[there])


def share(query: str, *tags: tuple[str, float]) -> float:
    return inner(query_vector(query), picture_vector([PictureTag(text, confidence) for text, confidence in tags]))


def held(query: str, *tags: str, given: Given = "words", captions: tuple[str, ...] = ()) -> str:
    literal = literal_query(query)
    assert literal is not None
    vector = picture_vector([PictureTag(text, given=given) for text in tags], captions)
    return "nothing" if vector is None else literal.held(inner(literal.vector, vector))


def test_same_words_are_found_whole() -> None:
    assert share("A black dog in the snow", ("a black dog in the snow", 1.0)) == pytest.approx(1)


def test_forms_cases_and_accents_of_a_word_are_one_word() -> None:
    assert share("Running DOGS", ("a dog runs", 1.0)) == pytest.approx(1)
    assert share("caf\u00e9", ("cafe\u0301", 1.0)) == pytest.approx(1)
    assert share("the dog's tail", ("dog tail", 1.0)) > 0.9


def test_words_that_say_nothing_count_little() -> None:
    assert terms("a dog on the beach")["a"] == FUNCTION_WORD
    assert share("a dog on the beach", ("a man on the moon", 1.0)) < 0.1
    assert share("a dog on the beach", ("beach dog", 1.0)) > 0.9


def test_half_the_words_are_half_of_the_query() -> None:
    assert share("red car", ("red house", 1.0)) == pytest.approx(0.5)


def test_more_tags_never_dilute_what_one_of_them_says() -> None:
    alone = share("red car", ("red car", 1.0))

    assert share("red car", ("red car", 1.0), ("a family at the lake in summer", 1.0)) == alone


def test_unsure_tags_count_by_their_confidence_and_the_surest_wins() -> None:
    assert share("red car", ("red car", 0.6)) == pytest.approx(0.6)
    assert share("red car", ("red car", 0.6), ("red", 1.0)) == pytest.approx(0.8)
    assert share("red car", ("red", 1.0), ("red car", 0.6)) == pytest.approx(0.8)  # in any order


def test_scripts_without_spaces_are_found_by_parts() -> None:
    assert share("黒い犬", ("公園の黒い犬", 1.0)) == pytest.approx(1)
    assert share("黒い犬", ("白い猫", 1.0)) < 0.5
    assert share("犬", ("犬", 1.0)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Crème brûlée", "creme brulee"),
        ("Zürich", "Zurich"),
        ("Cafe\u0301 Mu\u0308ller", "café müller"),
        ("ﬁreﬂies", "fireflies"),
        ("Ｃａｔ", "cat"),
        ("🐶 at the beach", "dog face at the beach"),
        ("so\u00adft\u200b toy", "soft toy"),
        ("the dog’s\u00a0ball", "the dog's ball"),
        ("Straße in Łódź", "strasse in lodz"),
    ],
)
def test_words_are_the_same_however_they_were_typed(one: str, other: str) -> None:
    assert terms(one) == terms(other)
    assert held(one, other) == held(other, one) == "everything"


@pytest.mark.parametrize("text", ["", "   ", "!?…", "_ _", "♪"])
def test_text_without_words_has_no_vector(text: str) -> None:
    assert query_vector(text) is None
    assert picture_vector([PictureTag(text)], [text]) is None
    assert literal_query(text) is None


def test_vectors_are_what_a_sparse_collection_takes() -> None:
    vector = query_vector(" ".join(f"word{number}" for number in range(300)))

    assert vector is not None
    assert vector.indices.dtype == np.uint32
    assert vector.values.dtype == np.float32
    assert (np.diff(vector.indices.astype(np.int64)) > 0).all()
    assert (vector.values > 0).all()
    assert vector.values.sum() == pytest.approx(1, abs=1e-5)


def test_repeating_a_word_changes_nothing() -> None:
    assert terms("dog dog dogs cat") == terms("dog cat")


def test_lone_surrogates_do_not_break_it() -> None:
    assert terms("dog \ud800") is not None


@pytest.mark.parametrize(
    ("query", "tags", "expected"),
    [
        ("our old house", ["our old house"], "everything"),
        ("the old houses", ["our old house"], "everything"),
        ("old house", ["house by the lake", "old"], "everything"),  # words of several tags
        ("our old house", ["our old barn"], "nothing"),
        ("old house in Prerow", ["Prerow"], "names"),
        ("old house in prerow", ["Prerow 1987"], "names"),  # nothing knows the word, so it is a name in small letters too
        ("Ottilie and Kunibert", ["Ottilie"], "nothing"),  # not every name
        ("with us", ["with us"], "everything"),  # function words alone
        ("with us", ["us"], "nothing"),
        ("老房子", ["我们的老房子"], "everything"),
    ],
)
def test_words_that_people_gave_are_told_from_words_that_are_missing(query: str, tags: list[str], expected: str) -> None:
    assert held(query, *tags) == expected


def test_a_picture_that_was_right_for_a_query_is_so_for_the_same_words_and_no_fewer() -> None:
    assert held("a beach with two dogs", "two dogs on the beach", given="query") == "everything"
    assert held("two dogs", "two dogs on the beach", given="query") == "nothing"
    assert held("two dogs on the beach", "two dogs on the beach", given="nobody") == "nothing"


@pytest.mark.parametrize(
    ("query", "caption", "expected"),
    [
        ("Ottilie", "Ottilie at the lake", "everything"),
        ("ottilie at the beach", "Ottilie at the lake", "names"),
        ("ottilie", "a day with ottilie", "caption"),  # in small letters, it may be any word that the list lacks
        ("ottilie by the lake", "a day with ottilie by the lake", "nothing"),
        ("ottilie at the lake", "Ottilie by a lake", "everything"),
        ("Ottilie lake summer", "Ottilie at the lake", "names"),  # of the words beside a name, all or none count
        ("lake summer", "Ottilie at the lake in summer", "nothing"),  # without a name, models compare captions
        ("Ottilie's birthday", "OTTILIE AT THE LAKE", "names"),
        ("Anna at the lake", "Anna at the lake", "nothing"),  # models know the word: they compare such captions
    ],
)
def test_captions_are_found_by_their_names(query: str, caption: str, expected: str) -> None:
    assert held(query, captions=(caption,)) == expected


@pytest.mark.parametrize(
    ("query", "caption", "expected"),
    [
        ("zeta", "Ottiliengarten zeta", "caption"),
        ("the dogs", "two dogs in the snow", "caption"),
        ("zeta", "Ottiliengarten eta", "nothing"),
        ("zeta snow", "Ottiliengarten zeta in the snow", "nothing"),  # of two words the models know more
        ("with", "two dogs with a ball", "nothing"),
    ],
)
def test_captions_are_found_by_the_one_word_of_a_query(query: str, caption: str, expected: str) -> None:
    assert held(query, captions=(caption,)) == expected


@pytest.mark.parametrize("word", ["lake", "Ottilie"])
def test_a_tag_of_one_word_is_worth_more_than_a_caption_that_holds_it(word: str) -> None:
    small = word.lower()
    assert held(word, word) == held(word, word, captions=(f"by {small}",)) == "everything"
    assert (
        held(word, word, given="query")
        == held(word, f"{word} {word}", given="query", captions=(f"by {small}",))
        == "everything"
    )
    assert held(word, captions=(f"by {small}",)) == "caption"


def test_a_name_in_a_tag_and_a_word_in_a_caption_count_together() -> None:
    assert held("Ottilie at the lake", "Ottilie", captions=("a girl by the lake",)) == "everything"
    assert held("Ottilie at the lake", "Ottilie", captions=("a girl by the sea",)) == "names"


def test_names_of_tags_and_captions_count_together() -> None:
    assert held("Ottilie with Kunibert", "Kunibert", captions=("a walk with Ottilie",)) == "everything"
    assert held("Ottilie lake summer", "lake", captions=("Ottilie in summer",)) == "names"
    assert held("Ottilie lake", "lake", captions=("Ottilie",)) == "everything"


def test_sums_stay_exact_for_the_longest_query() -> None:
    words = [f"Zq{chr(97 + number // 26)}{chr(97 + number % 26)}x" for number in range(100)] + ["dog", "lake", "house"]
    text = "a " + " ".join(words)

    assert held(text, *words) == "everything"
    assert held(text, *words[:-1]) == "names"
    assert held(text, *words[1:]) == "nothing"
    assert literal_query(" ".join(f"word{number}" for number in range(300))) is None
