"""Names are told from other words."""

import pytest

from lodestone.errors import ModelUnavailableError
from lodestone.tags import terms
from lodestone.tags.terms import names_in


@pytest.mark.parametrize(
    ("text", "written", "in_haste"),
    [
        ("Ottilie at the lake", {"ottilie"}, {"ottilie"}),
        ("OTTILIE'S LAKE", {"ottilie"}, {"ottilie"}),
        ("a day with ottilie", set(), {"ottilie"}),
        ("Anna in Paris", set(), set()),  # the vocabulary of MiniLM has both
        ("a frisbee, a tabby, a halfpipe in 2019", set(), {"halfpipe"}),
        ("Grüße aus Prerow", {"grusse", "prerow"}, {"grusse", "prerow"}),
        ("老房子", {"老房", "房子"}, {"老房", "房子"}),
        ("Xy", set(), set()),
        ("", set(), set()),
        ("!? 🐶", set(), set()),
    ],
)
def test_names_are_words_that_nothing_knows(text: str, written: set[str], in_haste: set[str]) -> None:
    assert names_in(text) == written
    assert names_in(text, small=True) == in_haste


def test_without_the_lists_of_words_there_are_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> dict[str, int]:
        raise ModelUnavailableError("the list is missing", hint="install it")

    monkeypatch.setattr(terms, "english_counts", missing)
    terms._known_words.cache_clear()
    try:
        assert names_in("a day with Ottilie") == set()
    finally:
        terms._known_words.cache_clear()
