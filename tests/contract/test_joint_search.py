"""Joint search on both stores: scores and order are those of the definition, whatever a picture or a query lacks."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from lodestone.composed import search as search_module
from lodestone.composed.fused import FusedLayout, FusedSpace
from lodestone.composed.joint import JointPart, scores
from lodestone.composed.search import FUSED_EF, JointSearch
from lodestone.config.compositions import Composition, Modality, Role
from lodestone.errors import InvalidRequestError, UnknownNameError
from lodestone.store.base import Filter, MatchAny, Neighbours, PointBatch, VectorQuery, VectorStore
from lodestone_schemas.collections import CAPTION_FIELDS, FUSED_FIELDS, FUSED_GRAPH, HOLDS, CollectionSpec

Rows = NDArray[np.float32]
DIMS = {"bridge": 24, "labels": 16, "captions": 12}
COMPOSITION = Composition(
    "default",
    (
        Modality("bridge-picture", "bridge", Role.TARGET),
        Modality("labels-picture", "labels", Role.TARGET),
        Modality("bridge-words", "bridge", Role.AUXILIARY),
        Modality("captions", "captions", Role.AUXILIARY),
    ),
    {},
)
LAYOUT = FusedLayout("default", tuple(FusedSpace(name, f"{name}-v1", dim, name == "captions") for name, dim in DIMS.items()))
SPACES = {name: f"{name}-v1" for name in DIMS}


def unit(rows: NDArray[np.float64]) -> Rows:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


@dataclass(frozen=True)
class Pictures:
    """Pictures of two directories; a third of them has no caption."""

    ids: list[str]
    vectors: Mapping[str, Rows]
    roots: list[str]

    def best(self, parts: list[JointPart], k: int, rows: NDArray[np.intp]) -> list[str]:
        joint = scores(parts, {space: vectors[rows] for space, vectors in self.vectors.items()})
        kept = [row for row in range(len(rows)) if not np.isnan(joint[row])]
        return [self.ids[rows[row]] for row in sorted(kept, key=lambda row: (-joint[row], self.ids[rows[row]]))[:k]]


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    rng = np.random.default_rng(5)
    count = 300
    ids = [str(uuid.UUID(int=int.from_bytes(rng.bytes(16), "big"))) for _ in range(count)]
    vectors = {name: unit(rng.standard_normal((count, dim))) for name, dim in DIMS.items()}
    vectors["captions"][rng.random(count) < 1 / 3] = np.nan
    return Pictures(ids, vectors, [f"root{number % 2}" for number in range(count)])


def fill(store: VectorStore, pictures: Pictures, *, fused: bool) -> dict[str, str]:
    payloads = [{"corpus": "c", "root": root, "folders": [""]} for root in pictures.roots]
    for name in ("bridge", "labels"):
        store.create(CollectionSpec(SPACES[name], DIMS[name]))
        store.upsert(SPACES[name], PointBatch(pictures.ids, pictures.vectors[name], payloads))
    store.create(CollectionSpec(SPACES["captions"], DIMS["captions"], fields=CAPTION_FIELDS))
    rows = np.flatnonzero(~np.isnan(pictures.vectors["captions"][:, 0]))
    captions = [{**payloads[row], "image": pictures.ids[row], "source": "table"} for row in rows]
    points = [str(uuid.UUID(int=int(row) + 1)) for row in rows]
    store.upsert(SPACES["captions"], PointBatch(points, pictures.vectors["captions"][rows], captions))
    if not fused:
        return dict(SPACES)
    store.create(CollectionSpec(LAYOUT.collection, LAYOUT.dim, fields=FUSED_FIELDS))
    holds = LAYOUT.holds(pictures.vectors)
    with_holds = [{**payload, HOLDS: held} for payload, held in zip(payloads, holds, strict=True)]
    store.upsert(LAYOUT.collection, PointBatch(pictures.ids, LAYOUT.join(pictures.vectors), with_holds))
    return {**SPACES, LAYOUT.alias: LAYOUT.collection}


def question(rng: np.random.Generator) -> list[JointPart]:
    """Some parts with random weights: often one of them is 0, and sometimes a part is one to avoid."""
    spaces = rng.choice(["bridge", "labels", "bridge", "captions"], size=rng.integers(1, 5))
    weights = rng.random(len(spaces)) * (rng.random(len(spaces)) < 0.8)
    weights[rng.integers(len(weights))] = rng.uniform(0.05, 1)
    signs = np.where(rng.random(len(spaces)) < 0.2, -1, 1)
    return [
        JointPart(f"{space}{number}", str(space), sign * unit(rng.standard_normal(DIMS[space])), float(weight))
        for number, (space, weight, sign) in enumerate(zip(spaces, weights, signs, strict=True))
    ]


@pytest.mark.nightly_beyond(3)
@pytest.mark.parametrize("fused", [True, False])
def test_scores_and_order_are_those_of_the_definition_for_any_weights(
    store: VectorStore, pictures: Pictures, fused: bool
) -> None:
    aliases, rng, every = fill(store, pictures, fused=fused), np.random.default_rng(9), np.arange(len(pictures.ids))
    search = JointSearch(store)
    row_of = {image_id: row for row, image_id in enumerate(pictures.ids)}
    for _ in range(25):
        parts = question(rng)
        found = search.search(parts, 20, composition=COMPOSITION, aliases=aliases, exact=True)
        assert found.through == ("fused" if fused else "spaces")
        assert list(found.ids) == pictures.best(parts, 20, every)
        rows = [row_of[image_id] for image_id in found.ids]
        chosen = {space: vectors[rows] for space, vectors in pictures.vectors.items()}
        np.testing.assert_allclose(found.scores, scores(parts, chosen), atol=1e-5)
        bare = search.search(parts, 20, composition=COMPOSITION, aliases=aliases, exact=True, with_similarities=False)
        assert set(bare.ids) == set(found.ids)
        np.testing.assert_allclose(bare.scores, found.scores, atol=1e-5)
        for number, part in enumerate(parts):
            if part.weight > 0:
                np.testing.assert_allclose(found.similarities[:, number], chosen[part.space] @ part.vector, atol=1e-5)


def test_an_exact_search_goes_deeper_until_no_other_picture_can_be_better(
    store: VectorStore, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best of two spaces together need not be among the first of either."""
    monkeypatch.setattr(search_module, "_CANDIDATES", 2)
    monkeypatch.setattr(search_module, "_A_RESULT", 1)
    aliases, rng, every = fill(store, pictures, fused=False), np.random.default_rng(31), np.arange(len(pictures.ids))
    limits: list[int] = []
    answering = store.search

    def search(collection: str, queries: Sequence[VectorQuery]) -> list[Neighbours]:
        limits.extend(query.limit for query in queries if query.filter is None)
        return answering(collection, queries)

    monkeypatch.setattr(store, "search", search)
    for _ in range(15):
        parts = question(rng)
        found = JointSearch(store).search(parts, 3, composition=COMPOSITION, aliases=aliases, exact=True)
        assert list(found.ids) == pictures.best(parts, 3, every)
    assert set(limits) >= {3, 24, 192}
    limits.clear()
    JointSearch(store).search(parts, 3, composition=COMPOSITION, aliases=aliases)
    assert set(limits) == {3}, "a search of graphs asks each space once"


def test_the_graph_of_a_fused_collection_is_searched_with_enough_candidates_for_any_weights(
    store: VectorStore, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    aliases = fill(store, pictures, fused=True)
    parts = [JointPart("picture", "labels", pictures.vectors["labels"][0], 1.0)]
    asked: list[int | None] = []
    answering = store.search

    def search(collection: str, queries: Sequence[VectorQuery]) -> list[Neighbours]:
        asked.extend(query.ef for query in queries)
        return answering(collection, queries)

    monkeypatch.setattr(store, "search", search)
    for k, ef, wanted in ((10, None, FUSED_EF), (FUSED_EF + 88, None, FUSED_EF + 88), (10, 64, 64)):
        asked.clear()
        JointSearch(store).search(parts, k, composition=COMPOSITION, aliases=aliases, ef=ef)
        assert set(asked) == {wanted}


def test_the_least_weight_of_the_paper_decides_among_equals(store: VectorStore) -> None:
    """Two hundred pictures are the same but in the space of weight .0007 (MUST, table VIII)."""
    rng = np.random.default_rng(11)
    labels = unit(rng.standard_normal((200, DIMS["labels"])))
    same = np.repeat(unit(rng.standard_normal((1, DIMS["bridge"]))), 200, axis=0)
    captions = np.full((200, DIMS["captions"]), np.nan, np.float32)
    ids = [str(uuid.UUID(int=row + 1)) for row in range(200)]
    aliases = {**SPACES, LAYOUT.alias: LAYOUT.collection}
    for name, collection in SPACES.items():
        store.create(CollectionSpec(collection, DIMS[name]))
    store.create(CollectionSpec(LAYOUT.collection, LAYOUT.dim, fields=FUSED_FIELDS))
    vectors = {"bridge": same, "labels": labels, "captions": captions}
    payloads = [{"corpus": "c", "root": "r", "folders": [""], HOLDS: held} for held in LAYOUT.holds(vectors)]
    store.upsert(LAYOUT.collection, PointBatch(ids, LAYOUT.join(vectors), payloads))
    store.build(LAYOUT.collection)
    wanted = unit(rng.standard_normal(DIMS["labels"]))
    parts = [JointPart("picture", "bridge", same[0], 0.9993), JointPart("words", "labels", wanted, 0.0007)]
    found = JointSearch(store).search(parts, 10, composition=COMPOSITION, aliases=aliases)
    assert list(found.ids) == [ids[row] for row in np.argsort(-(labels @ wanted))[:10]]


def test_each_group_of_pictures_has_its_own_best(store: VectorStore, pictures: Pictures) -> None:
    aliases, rng = fill(store, pictures, fused=True), np.random.default_rng(21)
    search = JointSearch(store)
    layout = search.layout(COMPOSITION, aliases)
    assert layout is not None
    words = unit(rng.standard_normal(DIMS["bridge"]))
    parts = [
        JointPart("picture", "labels", unit(rng.standard_normal(DIMS["labels"])), 0.5),
        JointPart("w", "bridge", words, 0.2),
    ]
    captions = JointPart("w", "captions", unit(rng.standard_normal(DIMS["captions"])), 0.3)
    silent = [parts[0], replace(parts[1], weight=0.5)]
    found = search.by_presence([*parts, captions], 10, layout=layout, incomplete=silent, exact=True)
    has = ~np.isnan(pictures.vectors["captions"][:, 0])
    for group, asked, rows in zip(found, ([*parts, captions], silent), (has, ~has), strict=True):
        assert list(group.ids) == pictures.best(asked, 10, np.flatnonzero(rows))
        best = [pictures.ids.index(image_id) for image_id in group.ids]
        expected = scores(asked, {space: vectors[best] for space, vectors in pictures.vectors.items()})
        np.testing.assert_allclose(group.scores, expected, atol=1e-5)


def test_a_shortlist_of_the_union_has_the_best_pictures(store: VectorStore, pictures: Pictures) -> None:
    aliases, rng, every = fill(store, pictures, fused=False), np.random.default_rng(4), np.arange(len(pictures.ids))
    search = JointSearch(store)
    for _ in range(10):
        parts = [
            JointPart(name, name, unit(rng.standard_normal(dim)), float(rng.uniform(0.2, 1))) for name, dim in DIMS.items()
        ]
        found = search.search(parts, 5, composition=COMPOSITION, aliases=aliases)
        assert list(found.ids) == pictures.best(parts, 5, every)


@pytest.mark.parametrize("fused", [True, False])
def test_a_filter_restricts_the_pictures(store: VectorStore, pictures: Pictures, fused: bool) -> None:
    aliases, rng = fill(store, pictures, fused=fused), np.random.default_rng(3)
    rows = np.flatnonzero(np.array(pictures.roots) == "root1")
    parts = [
        JointPart("picture", "bridge", unit(rng.standard_normal(24)), 0.4),
        JointPart("captions", "captions", unit(rng.standard_normal(12)), 0.6),
    ]
    filter_ = Filter((MatchAny("root", ("root1",)),))
    found = JointSearch(store).search(parts, 10, composition=COMPOSITION, aliases=aliases, filter_=filter_, exact=True)
    assert list(found.ids) == pictures.best(parts, 10, rows)


def test_an_uncaptioned_picture_does_not_fall_behind_one_whose_caption_says_something_else(store: VectorStore) -> None:
    ids = [str(uuid.UUID(int=number + 1)) for number in range(2)]
    east, north = np.eye(24, dtype=np.float32)[:2]
    words = np.eye(12, dtype=np.float32)
    vectors = {
        "bridge": np.stack([east, unit(east + 0.5 * north)]),
        "labels": np.eye(16, dtype=np.float32)[:2],
        "captions": np.stack([np.full(12, np.nan, np.float32), words[1]]),
    }
    aliases = fill(store, Pictures(ids, vectors, ["r", "r"]), fused=True)
    parts = [JointPart("picture", "bridge", east, 0.5), JointPart("captions", "captions", words[0], 0.5)]
    found = JointSearch(store).search(parts, 2, composition=COMPOSITION, aliases=aliases)
    assert found.ids == (ids[0], ids[1])
    assert found.scores[0] == pytest.approx(1)
    assert np.isnan(found.similarities[0, 1])


def test_fused_vectors_of_other_versions_are_not_searched(store: VectorStore, pictures: Pictures) -> None:
    aliases = fill(store, pictures, fused=True)
    aliases["labels"] = "bridge-v1"  # as when the space was swapped and the fused collection is not loaded yet
    part = JointPart("picture", "bridge", pictures.vectors["bridge"][7], 1.0)
    found = JointSearch(store).search([part], 3, composition=COMPOSITION, aliases=aliases)
    assert (found.through, found.ids[0]) == ("spaces", pictures.ids[7])


def test_what_cannot_be_asked_is_refused(store: VectorStore, pictures: Pictures) -> None:
    aliases = fill(store, pictures, fused=True)
    search, vector = JointSearch(store), pictures.vectors["bridge"][0]

    def ask(*parts: JointPart, k: int = 3) -> None:
        search.search(list(parts), k, composition=COMPOSITION, aliases=aliases)

    with pytest.raises(InvalidRequestError, match="no part of the query has a weight above 0"):
        ask(JointPart("picture", "bridge", vector, 0))
    with pytest.raises(UnknownNameError, match="faces"):
        ask(JointPart("face", "faces", vector, 1))
    with pytest.raises(InvalidRequestError, match="'labels' has 24 numbers; its vectors have 16"):
        ask(JointPart("picture", "labels", vector, 1))
    with pytest.raises(InvalidRequestError, match="0 results"):
        ask(JointPart("picture", "bridge", vector, 1), k=0)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["edge_store", pytest.param("server_store", marks=[pytest.mark.server, pytest.mark.nightly])])
def test_a_graph_that_changed_finds_what_a_rebuilt_one_finds(request: pytest.FixtureRequest, kind: str) -> None:
    """MUST leaves inserts and deletes open: here a tenth of the pictures goes, and as many others come."""
    store: VectorStore = request.getfixturevalue(kind)
    rng, count, dims = np.random.default_rng(17), 20_000, {"bridge": 32, "labels": 32}
    centres = {name: unit(rng.standard_normal((100, dim))) for name, dim in dims.items()}

    def drawn(rows: int) -> dict[str, Rows]:
        return {
            name: unit(centres[name][rng.integers(100, size=rows)] + 0.8 * unit(rng.standard_normal((rows, dim))))
            for name, dim in dims.items()
        }

    layout = FusedLayout("default", tuple(FusedSpace(name, f"{name}-v1", dim) for name, dim in dims.items()))
    ids = [str(uuid.UUID(int=number + 1)) for number in range(count + count // 10)]
    old, new = drawn(count), drawn(count // 10)
    every = {name: np.concatenate([old[name], new[name]]) for name in dims}
    gone = set(rng.choice(count, count // 10, replace=False).tolist())
    living = np.array([row for row in range(len(ids)) if row not in gone])

    def upsert(name: str, rows: NDArray[np.intp]) -> None:
        for start in range(0, len(rows), 2_000):
            some = rows[start : start + 2_000]
            vectors = layout.join({space: vectors[some] for space, vectors in every.items()})
            payloads = [{"corpus": "c", HOLDS: []}] * len(some)
            store.upsert(name, PointBatch([ids[row] for row in some], vectors, payloads))

    spec = CollectionSpec(layout.collection, layout.dim, fields=FUSED_FIELDS, hnsw=FUSED_GRAPH)  # as a home's own
    store.create(spec)
    upsert(layout.collection, np.arange(count))
    store.build(layout.collection)
    store.delete(layout.collection, [ids[row] for row in gone])
    upsert(layout.collection, np.arange(count, len(ids)))
    assert store.outside_graph(layout.collection) <= count // 10
    store.create(replace(spec, name="rebuilt"))
    upsert("rebuilt", living)
    store.build("rebuilt")

    asked = drawn(60)
    recalls: dict[str, list[float]] = {layout.collection: [], "rebuilt": []}
    for weight in (0.0, 0.2, 0.5, 0.9):
        joint = (
            weight * asked["bridge"] @ every["bridge"][living].T + (1 - weight) * asked["labels"] @ every["labels"][living].T
        )
        for row in range(len(joint)):
            truth = {ids[living[place]] for place in np.argpartition(-joint[row], 10)[:10]}
            parts = [
                JointPart("a", "bridge", asked["bridge"][row], weight),
                JointPart("b", "labels", asked["labels"][row], 1 - weight),
            ]
            for name, recall in recalls.items():
                (answer,) = store.search(name, [VectorQuery(layout.asked(parts), 10, ef=FUSED_EF)])
                recall.append(len(truth & set(answer.ids)) / 10)
    live, rebuilt = (float(np.mean(recall)) for recall in recalls.values())
    assert live >= rebuilt - 0.01
    assert live >= 0.98
