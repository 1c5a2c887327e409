"""Plain form of words: the same words, however they were typed."""

from __future__ import annotations

import unicodedata

import pytest

from lodestone.text_encoders.plain import plain_words, tidied, without_accents


@pytest.mark.parametrize(
    ("typed", "plain"),
    [
        ("ｃａｔ　ｏｎ　ａ　ｍａｔ", "cat on a mat"),
        ("ﬁreﬂies", "fireflies"),
        ("𝐜𝐚𝐭", "cat"),
        ("a dog’s ‘ball’", "a dog's 'ball'"),
        ("“old” „house“ «sea»", '"old" "house" "sea"'),
        ("x‑ray – negative", "x-ray - negative"),
        ("cat—dog", "cat - dog"),
        ("so\u00adft hy\u200bphen\ufeff", "soft hyphen"),
        ("a\u00a0red\u202fcar\u2009here", "a red car here"),
        ("\u202ecat\u202c", "cat"),
        ("ca\u200dt", "cat"),
        ("Lego™ bricks", "Lego bricks"),
        ("🐶", "dog face"),
        ("dog🐶park", "dog dog face park"),
        ("🐶🐶 🐶 in the park", "dog face in the park"),
        ("🐶 and 🐶", "dog face and dog face"),
        ("👩‍👧 at the 🏖️", "family woman girl at the beach with umbrella"),
        ("👍🏽", "thumbs up"),
        ("👨🏿‍🚀 floating", "man astronaut floating"),
        ("❤", "red heart"),
        ("❤️", "red heart"),
        ("🇫🇷 flag", "France flag"),
        ("1️⃣ dog", "1 dog"),
        ("→ exit", "→ exit"),
    ],
)
def test_words_have_one_form_however_they_were_typed(typed: str, plain: str) -> None:
    assert plain_words(typed) == plain
    assert plain_words(plain) == plain
    assert plain_words(unicodedata.normalize("NFD", typed)) == plain


@pytest.mark.parametrize(
    "typed", ["a cat", "crème brûlée", "Zürich", "日本語の犬", "क्\u200dष", "می\u200cخواهم", "©", "!?", "\ufe0f"]
)
def test_words_of_other_scripts_accents_and_what_would_leave_nothing_stay(typed: str) -> None:
    assert plain_words(typed) == typed


@pytest.mark.parametrize(
    "code",
    [
        0x00AD,
        0x034F,
        0x061C,
        0x180E,
        0x200B,
        0x200C,
        0x200D,
        0x200E,
        0x200F,
        0x202A,
        0x202E,
        0x2060,
        0x2069,
        0xFE00,
        0xFE0F,
        0xFEFF,
    ],
    ids=hex,
)
def test_characters_that_nobody_sees_are_left_out_of_latin_words(code: int) -> None:
    assert plain_words(f"ca{chr(code)}t") == tidied(f"ca{chr(code)}t") == "cat"


def test_what_is_shown_keeps_its_emoji() -> None:
    assert tidied("a “🐶” — no ｃａｔ, 👩‍👧") == 'a "🐶" - no cat, 👩‍👧'


@pytest.mark.parametrize(
    ("word", "bare"),
    [("zürich", "zurich"), ("brûlée", "brulee"), ("łódź", "lodz"), ("straße", "strasse"), ("smørrebrød", "smorrebrod")],
)
def test_latin_letters_lose_their_accents(word: str, bare: str) -> None:
    assert without_accents(word) == without_accents(unicodedata.normalize("NFD", word)) == bare


@pytest.mark.parametrize("word", ["हिन्दी", "が", "ёлка", "ά", "한국"])
def test_other_scripts_keep_their_marks(word: str) -> None:
    assert without_accents(word) == word
