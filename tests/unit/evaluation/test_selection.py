"""What is drawn from a benchmark: the same everywhere, and no query's own words are ever indexed."""

from pathlib import Path

import pytest

from lodestone.errors import InvalidRequestError
from lodestone_eval.datasets.base import EvalQuery, EvalSet, Folder, caption_set, same_text
from lodestone_eval.selection import QuerySelection, select, target_of


@pytest.fixture
def captioned(tmp_path: Path) -> EvalSet:
    """A hundred pictures of five captions; the fifth of each is shared with the next picture."""
    rows = []
    for number in range(100):
        name = f"{number:03d}.jpg"
        (tmp_path / name).touch()
        rows += [(name, f"Caption {place} of {number} .", "") for place in range(4)]
        rows.append((name, f"shared by {number // 2}", ""))
    folder = Folder("captions", tmp_path, "")
    return caption_set(folder, {name: tmp_path / name for name, _, _ in rows}, rows, split=None)


def test_every_caption_is_asked_once_for_all_pictures_that_have_it(captioned: EvalSet) -> None:
    assert len(captioned.queries) == 450
    shared = next(query for query in captioned.queries if query.text == "shared by 7")
    assert shared.relevant == {"014.jpg", "015.jpg"}


def test_no_words_that_are_asked_are_indexed(captioned: EvalSet) -> None:
    for seed in range(5):
        some = select(captioned, QuerySelection(captioned=1.0, seed=seed))
        asked = {same_text(query.text) for query in some.queries}
        indexed = {same_text(text) for texts in some.sidecars.values() for text in texts}
        assert asked
        assert indexed
        assert asked.isdisjoint(indexed)
        assert all(any(query.relevant & {name} for query in some.queries) for name in some.pictures)


def test_the_share_of_described_pictures_is_drawn_by_hash_and_grows(captioned: EvalSet) -> None:
    small, large = (frozenset(select(captioned, QuerySelection(captioned=share)).sidecars) for share in (0.3, 0.6))
    assert 15 < len(small) < 45
    assert 45 < len(large) < 75
    assert small < large
    assert frozenset(select(captioned, QuerySelection(captioned=0.3, seed=1)).sidecars) != small
    assert not select(captioned, QuerySelection(captioned=0.0)).sidecars


def test_what_is_asked_does_not_depend_on_what_is_described(captioned: EvalSet) -> None:
    some, more = (select(captioned, QuerySelection(captioned=share)).queries for share in (0.1, 0.9))
    assert some == more


def test_a_limit_takes_pictures_and_their_queries_alone(captioned: EvalSet) -> None:
    some = select(captioned, QuerySelection(limit=10))
    assert len(some.pictures) == 10
    assert all(query.relevant and query.relevant <= some.pictures.keys() for query in some.queries)
    assert some.pictures.keys() < select(captioned, QuerySelection(limit=20)).pictures.keys()


def test_a_sample_takes_queries_alone(captioned: EvalSet) -> None:
    some = select(captioned, QuerySelection(sample=25))
    assert (len(some.queries), len(some.pictures)) == (25, 100)


def test_captions_are_asked_for_where_there_are_none(captioned: EvalSet) -> None:
    bare = EvalSet("names", "ranking", None, captioned.pictures, captioned.queries)
    with pytest.raises(InvalidRequestError, match="no captions"):
        select(bare, QuerySelection(captioned=0.5))


def test_targets_are_told_apart_by_what_was_indexed() -> None:
    described = frozenset({"a", "b"})
    targets = [target_of(EvalQuery("q", "q", frozenset(names)), described) for names in ("a", "ab", "ac", "c")]
    assert targets == ["described", "described", "mixed", "undescribed"]
