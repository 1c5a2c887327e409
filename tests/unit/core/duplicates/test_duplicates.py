"""Groups of copies, a search for them that can be stopped, and rankings that show one of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.support.points import point_id

from lodestone.duplicates.near import NearSearch, grouped
from lodestone.retrieval.collapse import collapsed, with_equal_files
from lodestone.retrieval.fusion import FusedList
from lodestone.retrieval.searcher import Ranking
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import PointBatch
from lodestone.store.edge.store import EdgeStore
from lodestone_schemas.collections import PAYLOAD_FIELDS, CollectionSpec

DIM = 32
IDS = sorted(point_id(number) for number in range(90))


def near(vector: np.ndarray, distance: float, rng: np.random.Generator) -> np.ndarray:
    """A unit vector at that cosine distance from a unit vector."""
    other = rng.standard_normal(vector.shape)
    other -= (other @ vector) * vector
    other /= np.linalg.norm(other)
    cosine = 1 - distance
    return np.asarray(cosine * vector + np.sqrt(1 - cosine**2) * other, np.float32)


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    """90 points: 0 to 39 are one picture, 40 has a copy at 0.01 (41) and a likeness at 0.2 (42), the rest are unlike."""
    rng = np.random.default_rng(7)
    made = rng.standard_normal((90, DIM)).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    made[1:40] = made[0]
    made[41], made[42] = near(made[40], 0.01, rng), near(made[40], 0.2, rng)
    return made


@pytest.fixture(scope="module")
def store(vectors: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeStore]:
    home = tmp_path_factory.mktemp("store")
    opened = EdgeStore(home / "store", aliases=JsonAliasTable(home / "aliases.json"))
    opened.create(CollectionSpec("clip-1", DIM, fields=PAYLOAD_FIELDS))
    payloads = [{"corpus": "other" if number == 89 else "mine", "root": "r", "folders": [""]} for number in range(90)]
    opened.upsert("clip-1", PointBatch(IDS, vectors, payloads))
    yield opened
    opened.close()


def search_of(store: EdgeStore, folder: Path, distance: float = 0.05) -> NearSearch:
    return NearSearch(store, "clip-1", corpus_id="mine", distance=distance, journal=folder / "journal.jsonl")


def after(last: str) -> list[str]:
    return [image_id for image_id in IDS[:89] if image_id > last]


def test_pictures_as_close_as_asked_are_pairs_however_many_copies_there_are(store: EdgeStore, tmp_path: Path) -> None:
    pairs = search_of(store, tmp_path).run(after)
    found = {(IDS.index(first), IDS.index(second)) for first, second, _ in pairs}
    assert found == {(first, second) for first in range(40) for second in range(first + 1, 40)} | {(40, 41)}
    assert len(pairs) == len(found)
    distances = {(IDS.index(first), IDS.index(second)): distance for first, second, distance in pairs}
    assert distances[40, 41] == pytest.approx(0.01, abs=1e-3)
    wider = search_of(store, tmp_path, 0.21).run(after)
    assert (IDS[40], IDS[42]) in {(first, second) for first, second, _ in wider}


def test_a_picture_of_another_corpus_is_no_copy_however_close(store: EdgeStore, vectors: np.ndarray, tmp_path: Path) -> None:
    foreign = point_id(90)
    store.create(CollectionSpec("clip-2", DIM, fields=PAYLOAD_FIELDS))
    batch = PointBatch(
        [*IDS[40:43], foreign],
        np.concatenate([vectors[40:43], vectors[40:41]]),  # the foreign one is equal to the first
        [{"corpus": corpus, "root": "r", "folders": [""]} for corpus in ("mine", "mine", "mine", "other")],
    )
    store.upsert("clip-2", batch)
    search = NearSearch(store, "clip-2", corpus_id="mine", distance=0.05, journal=tmp_path / "journal.jsonl")
    pairs = search.run(lambda last: [image_id for image_id in IDS[40:43] if image_id > last])
    assert [(first, second) for first, second, _ in pairs] == [(IDS[40], IDS[41])]


def test_who_asks_may_say_which_of_the_close_ones_are_copies(store: EdgeStore, tmp_path: Path) -> None:
    def alike(pairs: Sequence[tuple[str, str]]) -> list[bool]:
        return [{IDS.index(first) % 3, IDS.index(second) % 3} == {0} for first, second in pairs]

    journal = tmp_path / "journal.jsonl"
    found = NearSearch(store, "clip-1", corpus_id="mine", distance=0.05, journal=journal, alike=alike, rule="thirds").run(after)
    # of 40 equal pictures 14 are said to be copies; a picture whose close ones are not all copies is not asked for more
    assert found
    assert all(IDS.index(first) % 3 == IDS.index(second) % 3 == 0 for first, second, _ in found)


def test_a_stopped_search_goes_on_where_it_was(store: EdgeStore, tmp_path: Path) -> None:
    whole = search_of(store, tmp_path / "whole").run(after)
    asked: list[int] = []

    def stop(count: int) -> None:
        asked.append(count)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search_of(store, tmp_path).run(after, report_progress=stop)
    with (tmp_path / "journal.jsonl").open("a") as journal:
        journal.write('{"last": "cut o')  # killed while it was written
    assert search_of(store, tmp_path).run(after, report_progress=asked.append) == whole
    assert asked == [64, 25]
    assert not (tmp_path / "journal.jsonl").exists()


def test_a_journal_of_another_search_is_not_taken_for_this_one(store: EdgeStore, tmp_path: Path) -> None:
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search_of(store, tmp_path, 0.001).run(after, report_progress=stop)
    asked: list[int] = []
    search_of(store, tmp_path, 0.05).run(after, report_progress=asked.append)
    assert sum(asked) == 89
    with pytest.raises(KeyboardInterrupt):
        search_of(store, tmp_path).run(after, report_progress=stop)
    again = search_of(store, tmp_path)
    again.forget()
    again.run(after, report_progress=asked.append)
    assert sum(asked) == 2 * 89


def test_members_are_close_to_their_representative_and_in_one_group() -> None:
    chain = [("a", "b", 0.04), ("b", "c", 0.03), ("c", "d", 0.04), ("d", "e", 0.02)]
    groups = grouped(chain)
    assert groups == [[("b", 0.0), ("c", 0.03), ("a", 0.04)], [("d", 0.0), ("e", 0.02)]]
    assert grouped([]) == []
    members = [image_id for group in groups for image_id, _ in group]
    assert len(members) == len(set(members))


def test_equal_files_are_copies_in_any_corpus_and_bring_the_groups_of_their_corpora_together() -> None:
    hashes = {"a": "1", "b": "2", "c": "1", "d": "3", "e": "4"}  # a and c: one file in two corpora
    groups = with_equal_files({"a": "x", "b": "x", "c": "y", "d": "y"}, hashes)
    assert groups["a"] == groups["b"] == groups["c"] == groups["d"] != groups["e"]
    apart = with_equal_files({}, hashes)
    assert apart["a"] == apart["c"]
    assert len(set(apart.values())) == 4


def test_the_best_of_each_group_stands_for_all() -> None:
    ranking = Ranking(FusedList(("a", "b", "c", "d", "e"), np.array([5.0, 4.0, 3.0, 2.0, 1.0])))
    shown, folded = collapsed(ranking, {"b": "x", "c": "y", "d": "x", "e": "x"})
    assert shown.fused.ids == ("a", "b", "c")
    assert shown.fused.scores.tolist() == [5.0, 4.0, 3.0]
    assert folded == {"b": 2}
    same, none = collapsed(ranking, {})
    assert same.fused.ids == ranking.fused.ids
    assert none == {}
