"""Exemplars: captioned pictures of the collection as guides."""

import time
import uuid

import numpy as np
import pytest

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.identity import caption_id
from lodestone.catalog.records import CaptionRecord, ImageRecord, ImageState
from lodestone.errors import DeadlineExceededError, UnknownNameError
from lodestone.generators.base import GuideRequest
from lodestone.generators.engines.exemplar import TAG_WEIGHT, Exemplar
from lodestone.generators.registry import GeneratorContext, make_generator
from lodestone.retrieval.fusion import RankedList
from lodestone.retrieval.tag_matches import TagMatches
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import Filter, MatchAny, PointBatch
from lodestone.store.edge.store import EdgeStore
from lodestone_schemas.collections import CAPTION_FIELDS, CollectionSpec

IMAGES = [str(uuid.UUID(int=number)) for number in (1, 2, 3)]
SPACES = {"bridge": "bridge-1"}
WITH_CAPTIONS = {**SPACES, "captions": "captions-1"}
# Each caption's cosine with the query [1, 0, 0]; picture 1 has two, picture 3 one that says something else.
CAPTIONS = {IMAGES[0]: {"a dog runs": 0.8, "a dog on grass": 0.95}, IMAGES[1]: {"a puppy": 0.9}, IMAGES[2]: {"a ship": 0.1}}


@pytest.fixture
def catalog(tmp_path):
    opened = Catalog.open(tmp_path / "catalog.sqlite")
    corpus = opened.ensure_corpus("c")
    root = opened.ensure_root(corpus.corpus_id, "/r")
    opened.add_images([ImageRecord(one, corpus.corpus_id, root.root_id, one, one, 1, 0, ImageState.ACTIVE) for one in IMAGES])
    opened.set_captions({key: [CaptionRecord(key, "sidecar", text) for text in texts] for key, texts in CAPTIONS.items()})
    yield opened
    opened.close()


@pytest.fixture
def store(tmp_path):
    opened = EdgeStore(tmp_path / "store", aliases=JsonAliasTable(tmp_path / "aliases.json"))
    opened.create(CollectionSpec("bridge-1", 3))
    opened.upsert("bridge-1", PointBatch(IMAGES, np.eye(3, dtype=np.float32), [{}] * 3))
    opened.create(CollectionSpec("captions-1", 3, fields=CAPTION_FIELDS))
    for image_id, texts in CAPTIONS.items():
        for text, cosine in texts.items():
            vector = np.array([[cosine, np.sqrt(1 - cosine**2), 0]], np.float32)
            payload = {"image": image_id, "source": "sidecar", "root": f"root-{image_id}"}
            opened.upsert("captions-1", PointBatch([caption_id(image_id, "sidecar", text)], vector, [payload]))
    yield opened
    opened.close()


def request(n=5, collections=WITH_CAPTIONS, **more):
    vector = np.array([1, 0, 0], np.float32)
    return GuideRequest("a dog", "a dog", n, text_vectors={"minilm": vector}, collections=collections, **more)


async def test_guides_are_the_pictures_whose_captions_match_each_once_by_its_best_caption(store, catalog):
    guides = await Exemplar(store, catalog, least_similarity=0.5).generate(request())
    assert [guide.provenance["image_id"] for guide in guides] == IMAGES[:2]
    assert [guide.provenance["caption"] for guide in guides] == ["a dog on grass", "a puppy"]
    assert [guide.weight for guide in guides] == pytest.approx([0.9, 0.8], abs=1e-5)
    assert [guide.guide_id for guide in guides] == ["exemplar/0", "exemplar/1"]
    np.testing.assert_array_equal(guides[1].vectors["bridge-1"], [0, 1, 0])
    assert all(set(guide.vectors) == {"bridge-1"} and guide.pixels is None for guide in guides)


async def test_at_most_n_and_only_what_is_like_enough(store, catalog):
    exemplar = Exemplar(store, catalog, least_similarity=0.92)
    assert len(await exemplar.generate(request())) == 1
    assert len(await Exemplar(store, catalog, least_similarity=0.0).generate(request(n=2))) == 2
    assert await exemplar.generate(request(n=0)) == []


async def test_the_querys_filter_holds_for_guides(store, catalog):
    only = Filter((MatchAny("root", (f"root-{IMAGES[1]}",)),))
    guides = await Exemplar(store, catalog, least_similarity=0.5).generate(request(filter=only))
    assert [guide.provenance["image_id"] for guide in guides] == [IMAGES[1]]


async def test_a_captioned_picture_that_no_space_holds_makes_no_guide(store, catalog):
    store.delete("bridge-1", [IMAGES[0]])
    guides = await Exemplar(store, catalog, least_similarity=0.5).generate(request())
    assert [guide.provenance["image_id"] for guide in guides] == [IMAGES[1]]


class Tags:
    """Tags as the tag search gives them: pictures and scores, in the roots that the filter lets through."""

    def __init__(self, scores):
        self.scores = scores

    def search(self, text, collection, *, filter_, limit):
        roots = filter_.must[0].values if filter_ else [f"root-{image_id}" for image_id in self.scores]
        seen = {one: score for one, score in self.scores.items() if f"root-{one}" in roots}
        best = sorted(seen, key=lambda one: (-seen[one], one))[:limit]
        assert (text, collection) == ("a dog", "tags-1")
        scores = np.array([seen[one] for one in best], np.float32)
        return TagMatches(RankedList("text", "tags", 1.0, tuple(best), scores), named=frozenset([IMAGES[0]]))


WITH_TAGS = {**WITH_CAPTIONS, "tags": "tags-1"}


async def test_tagged_pictures_are_guides_by_their_score_and_a_picture_is_one_guide(store, catalog):
    tags = Tags({IMAGES[2]: 0.8, IMAGES[1]: 1.0})
    exemplar = Exemplar(store, catalog, least_similarity=0.5, tags=tags)
    guides = await exemplar.generate(request(collections=WITH_TAGS))
    assert [guide.provenance["image_id"] for guide in guides] == IMAGES
    assert [guide.weight for guide in guides] == pytest.approx([0.9, 0.8, TAG_WEIGHT * 0.8], abs=1e-5)
    assert guides[2].provenance["tag_score"] == pytest.approx(0.8)
    alone = await exemplar.generate(request(collections={**SPACES, "tags": "tags-1"}))
    assert [guide.provenance["image_id"] for guide in alone] == [IMAGES[1], IMAGES[2]]
    assert len(await exemplar.generate(request(collections=WITH_CAPTIONS))) == 2


async def test_tags_with_half_of_the_words_are_no_guides(store, catalog):
    tags = Tags({IMAGES[2]: 0.5**3, IMAGES[1]: 0.65**3})
    exemplar = Exemplar(store, catalog, least_similarity=0.5, tags=tags)
    guides = await exemplar.generate(request(collections={**SPACES, "tags": "tags-1"}))
    assert [guide.provenance["image_id"] for guide in guides] == [IMAGES[1]]


async def test_tags_of_another_corpus_are_not_seen(store, catalog):
    exemplar = Exemplar(store, catalog, least_similarity=0.5, tags=Tags({IMAGES[2]: 1.0}))
    only = Filter((MatchAny("root", (f"root-{IMAGES[1]}",)),))
    guides = await exemplar.generate(request(collections=WITH_TAGS, filter=only))
    assert [guide.provenance["image_id"] for guide in guides] == [IMAGES[1]]


async def test_rounds_of_one_give_what_one_round_gives(store, catalog):
    for number in range(12):  # so many captions of one picture that they fill the first search
        vector = np.array([[0.99, 0, np.sqrt(1 - 0.99**2)]], np.float32)
        payload = {"image": IMAGES[0], "source": "more"}
        store.upsert("captions-1", PointBatch([caption_id(IMAGES[0], "more", str(number))], vector, [payload]))
    exemplar = Exemplar(store, catalog, least_similarity=0.0, tags=Tags({IMAGES[2]: 0.9}))
    together = await exemplar.generate(request(n=3, collections=WITH_TAGS))
    apart = [await exemplar.generate(request(n=1, first=number, collections=WITH_TAGS)) for number in range(4)]
    assert [len(one) for one in apart] == [1, 1, 1, 0]
    assert [(one.guide_id, one.weight, one.provenance) for one in together] == [
        (one.guide_id, one.weight, one.provenance) for (one,) in apart[:3]
    ]


class Untouchable:
    def __getattr__(self, name):
        raise AssertionError(f"{name} was asked for")


async def test_without_captions_nothing_is_touched():
    exemplar = Exemplar(Untouchable(), Untouchable())
    assert await exemplar.generate(request(collections=SPACES)) == []
    without_vector = GuideRequest("a dog", "a dog", 3, collections=WITH_CAPTIONS)
    assert await exemplar.generate(without_vector) == []


async def test_a_store_that_is_late_ends_at_the_deadline(store, catalog):
    class Slow:
        def instant(self, name):
            return store.instant(name)

        def search(self, name, queries):
            time.sleep(0.5)
            return store.search(name, queries)

    with pytest.raises(DeadlineExceededError):
        await Exemplar(Slow(), catalog).generate(request(deadline=time.monotonic() + 0.05))


def test_generators_are_made_by_name(store, catalog):
    context = GeneratorContext(store, catalog)
    assert make_generator("exemplar", context).name == "exemplar"
    with pytest.raises(UnknownNameError) as raised:
        make_generator("sdxl", context)
    assert "exemplar" in raised.value.details["known"]
