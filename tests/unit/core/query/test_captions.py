"""What captions say for and against pictures."""

from __future__ import annotations

import uuid

import numpy as np
import pytest

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.identity import caption_id
from lodestone.catalog.records import CaptionRecord, ImageRecord, ImageState
from lodestone.query.guides.captions import CaptionEvidence, CaptionRule, CaptionWords
from lodestone.retrieval.calibration import ScoreCalibration
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import Filter, MatchAny, PointBatch
from lodestone.store.edge.matrix_keeper import MatrixPolicy
from lodestone.store.edge.store import EdgeStore
from lodestone_schemas.collections import CAPTION_FIELDS, CollectionSpec

FITS, TITLE, OTHER, BARE, *CROWD = [str(uuid.UUID(int=number)) for number in range(1, 60)]
LONG = "one two three four five six seven eight nine ten"
ASKED = np.array([1, 0, 0, 0], np.float32)
RULE = CaptionRule()


class Counting:
    """A store that counts searches."""

    def __init__(self, store: EdgeStore) -> None:
        self._store = store
        self.searches = 0

    def __getattr__(self, name: str):
        return getattr(self._store, name)

    def search(self, *args):
        self.searches += 1
        return self._store.search(*args)


class Fixed(ScoreCalibration):
    """As if most captions were about other things."""

    def __init__(self) -> None: ...

    def standing(self, collection: str, vector: np.ndarray) -> tuple[float, float]:
        return 0.08, 0.135


def vector(cosine: float, number: int = 0) -> np.ndarray:
    turn = np.random.default_rng(number).normal(size=3)
    return np.array([cosine, *np.sqrt(1 - cosine**2) * turn / np.linalg.norm(turn)], np.float32)


@pytest.fixture
def captions() -> dict[str, dict[str, float]]:
    crowd = {one: {f"{LONG} of {number}": 0.1 + 0.01 * (number % 7)} for number, one in enumerate(CROWD)}
    return {FITS: {LONG: 0.9, f"{LONG} too": 0.1}, TITLE: {"a title": 0.05}, OTHER: {f"{LONG} else": 0.05}} | crowd


@pytest.fixture
def catalog(tmp_path, captions):
    opened = Catalog.open(tmp_path / "catalog.sqlite")
    corpus = opened.ensure_corpus("c")
    root = opened.ensure_root(corpus.corpus_id, "/r")
    opened.add_images(
        [ImageRecord(one, corpus.corpus_id, root.root_id, one, one, 1, 0, ImageState.ACTIVE) for one in (BARE, *captions)]
    )
    opened.set_captions({key: [CaptionRecord(key, "sidecar", text) for text in texts] for key, texts in captions.items()})
    yield opened
    opened.close()


@pytest.fixture(params=[0, 10_000], ids=["engine", "matrix"])
def store(tmp_path, captions, request):
    policy = MatrixPolicy(points=request.param, after=0)
    opened = EdgeStore(tmp_path / "store", aliases=JsonAliasTable(tmp_path / "aliases.json"), matrix=policy)
    opened.create(CollectionSpec("captions-1", 4, fields=CAPTION_FIELDS))
    rows = [(image_id, text, cosine) for image_id, texts in captions.items() for text, cosine in texts.items()]
    opened.upsert(
        "captions-1",
        PointBatch(
            [caption_id(image_id, "sidecar", text) for image_id, text, _ in rows],
            np.stack([vector(cosine, number) for number, (_, _, cosine) in enumerate(rows)]),
            [{"image": image_id, "source": "sidecar", "root": f"root-{image_id}"} for image_id, _, _ in rows],
        ),
    )
    yield Counting(opened)
    opened.close()


@pytest.fixture
def evidence(store, catalog) -> CaptionEvidence:
    return CaptionEvidence(store, catalog, ScoreCalibration(store))


def test_captions_speak_for_their_picture_against_others_and_not_of_undescribed_ones(evidence) -> None:
    matches = evidence.ask(ASKED, "captions-1")
    assert matches.found.ids == (FITS,)  # by its best caption, not its worst
    listed = matches.completed([OTHER, BARE, FITS, TITLE])
    assert (listed.guide, listed.space, listed.ids) == ("text", "captions", (FITS, BARE, TITLE, OTHER))
    scores = dict(zip(listed.ids, listed.scores.tolist(), strict=True))
    assert scores[FITS] == pytest.approx(float(matches.found.scores[0])) and scores[FITS] > 0
    assert scores[BARE] == 0
    assert scores[OTHER] == pytest.approx(-RULE.against / RULE.several)
    assert scores[TITLE] == pytest.approx(-RULE.against / RULE.several * 2 / RULE.full)  # two words deny little


def test_several_captions_of_a_picture_deny_more_than_one(store, catalog) -> None:
    own = [CaptionRecord(BARE, "table", f"{LONG} number {number}") for number in range(6)]
    for count, share in ((1, 0.25), (2, 0.5), (4, 1.0), (6, 1.0)):
        catalog.set_captions({BARE: own[:count]}, sources=["table"])
        ids = [caption_id(BARE, "table", one.text) for one in own[:count]]
        payload = {"image": BARE, "source": "table"}
        store.upsert("captions-1", PointBatch(ids, np.stack([vector(0.0)] * count), [payload] * count))
        listed = CaptionEvidence(store, catalog, Fixed()).ask(ASKED, "captions-1").completed([BARE])
        assert listed.scores.tolist() == pytest.approx([-RULE.against * share]), count


def test_the_first_picture_of_the_words_gets_the_benefit_of_the_doubt_where_nobody_described_it(store, catalog) -> None:
    kind = CaptionEvidence(store, catalog, ScoreCalibration(store), rule=CaptionRule(doubt=0.3))
    listed = kind.ask(ASKED, "captions-1", first=BARE).completed([BARE, OTHER, FITS])
    scores = dict(zip(listed.ids, listed.scores.tolist(), strict=True))
    assert scores[BARE] == pytest.approx(0.3)
    described = kind.ask(ASKED, "captions-1", first=OTHER).completed([BARE, OTHER, FITS])
    scores = dict(zip(described.ids, described.scores.tolist(), strict=True))
    assert scores[BARE] == 0
    assert scores[OTHER] == pytest.approx(-RULE.against / RULE.several), "its own caption speaks"
    assert not kind.ask(ASKED, "captions-1", filter_=Filter((MatchAny("root", ("none",)),)), first=BARE).speak([BARE]), (
        "doubt alone is no reason to rank again"
    )


def test_similarity_is_measured_by_the_collections_own_captions(store, catalog, evidence) -> None:
    before = float(evidence.ask(ASKED, "captions-1").found.scores[0])
    near = [vector(0.7, number) for number in range(200)]  # now everybody says something like it
    ids = [str(uuid.UUID(int=10_000 + number)) for number in range(200)]
    store.upsert("captions-1", PointBatch(ids, np.stack(near), [{"image": CROWD[0], "source": "table"}] * 200))
    after = CaptionEvidence(store, catalog, ScoreCalibration(store)).ask(ASKED, "captions-1").found
    assert max(after.scores.tolist(), default=0.0) < before


def test_the_querys_filter_holds(evidence) -> None:
    other_root = Filter((MatchAny("root", (f"root-{OTHER}",)),))
    assert evidence.ask(ASKED, "captions-1", filter_=other_root).found.ids == ()


def test_pictures_are_asked_about_once(store, evidence) -> None:
    matches = evidence.ask(ASKED, "captions-1")
    first = matches.completed([FITS, OTHER])
    searched = store.searches
    assert matches.completed([OTHER, FITS]).ids == first.ids
    assert store.searches == searched
    matches.completed([OTHER, FITS, TITLE])
    assert store.searches == searched + 1


def test_evidence_grows_with_similarity_and_short_captions_say_less() -> None:
    spreads = np.array([-5.0, 0.0, 3.6, 6.0], np.float32)
    full, title = (
        RULE.evidence(RULE.standing(spreads, words), words, beside=np.full(4, 4), neutral=RULE.neutral)
        for words in (np.full(4, 10), np.full(4, 1))
    )
    assert (np.diff(full) >= 0).all() and full[-1] > 0 > full[0]
    assert (np.abs(title) <= np.abs(full)).all()


def test_only_the_few_best_are_spoken_for_however_many_captions_are_alike(store, catalog) -> None:
    many = {CROWD[number]: 0.95 - 0.005 * number for number in range(30)}
    catalog.set_captions({one: [CaptionRecord(one, "table", f"{LONG} again")] for one in many}, sources=["table"])
    rows = [
        (caption_id(one, "table", f"{LONG} again"), vector(cosine, number)) for number, (one, cosine) in enumerate(many.items())
    ]
    payloads = [{"image": one, "source": "table"} for one in many]
    store.upsert("captions-1", PointBatch([key for key, _ in rows], np.stack([row for _, row in rows]), payloads))
    for rule, spoken_for in ((RULE, RULE.speakers), (CaptionRule(speakers=2), 2)):
        matches = CaptionEvidence(store, catalog, Fixed(), rule=rule).ask(ASKED, "captions-1")
        assert matches.found.ids == tuple(list(many)[:spoken_for])
        scores = matches.completed([*many, FITS]).scores
        assert (scores > 0).sum() == spoken_for


def test_words_are_read_once_where_the_store_answers_from_memory(store, catalog, monkeypatch) -> None:
    evidence = CaptionEvidence(store, catalog, ScoreCalibration(store))
    asked = [FITS, OTHER, BARE, TITLE, *CROWD]
    evidence.ask(ASKED, "captions-1")  # makes the matrix
    before = evidence.ask(ASKED, "captions-1").completed(asked)
    reads = []
    captions = catalog.captions
    monkeypatch.setattr(catalog, "captions", lambda ids: reads.append(ids) or captions(ids))
    after = evidence.ask(ASKED, "captions-1").completed(asked)
    assert after.ids == before.ids
    np.testing.assert_array_equal(after.scores, before.scores)
    assert len(reads) == (0 if store.instant("captions-1") else 1)


def test_captions_that_are_remembered_are_bounded(catalog) -> None:
    words = CaptionWords(catalog, most=40)
    for _ in range(3):
        assert len(words.read([FITS, *CROWD[:20]])) == 22
        assert len(words.read(CROWD[20:])) == len(CROWD) - 20
        assert len(words.known) <= 40


def test_a_caption_of_nobody_is_no_evidence(store, catalog) -> None:
    """It is in the store, and the catalog does not know it (any more)."""
    evidence = CaptionEvidence(store, catalog, ScoreCalibration(store))
    evidence.ask(ASKED, "captions-1")
    store.upsert(
        "captions-1", PointBatch([str(uuid.UUID(int=10_000))], vector(0.95)[None], [{"image": BARE, "source": "table"}])
    )
    matches = evidence.ask(ASKED, "captions-1")
    assert matches.found.ids[0] == BARE  # of no words: it falls behind a little, as every short one
    listed = matches.completed([BARE, FITS])
    assert dict(zip(listed.ids, listed.scores.tolist(), strict=True))[BARE] == 0
