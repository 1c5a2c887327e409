"""Queries of the benchmarks of short words: which photos are right for a name, and which texts are absent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from research.fits.everyday import asked, everyday_names, precision
from research.fits.presence_lengths import ABSENT, LENGTHS, PRESENT, Lengths
from research.fits.quality import Collection, together, unmentioned

from lodestone.backbones.base import BackboneOutputs, OutputKey

ROW = OutputKey("efficientnet-lite0", "features")
COMMON_PHOTOS = [f"a photo number {number}" for number in range(20)]


def photos(captions: list[str], owner: list[int] | None = None) -> Collection:
    """Give photos whose feature is their row, and captions whose vectors are all different."""
    of = np.arange(len(captions)) if owner is None else np.array(owner)
    outputs = BackboneOutputs({ROW: np.arange(of.max() + 1)[:, None].astype(np.float32)})
    return Collection(outputs, np.eye(len(captions), 64, dtype=np.float32), of, captions)


def test_a_photo_is_right_for_a_name_when_a_caption_has_one_of_its_words_also_in_the_plural() -> None:
    captions = ["two cows on a hill", "a cattle market", "scowling man", "a Hotdog stand", *COMMON_PHOTOS]
    names = {one.name: one for one in everyday_names(captions, np.arange(24), 24)}
    assert names["cow"].right.tolist() == [0, 1] and names["cow"].set_name == "coco"
    assert names["hot dog"].right.tolist() == [3]
    assert "zebra" not in names  # nobody has one


def test_a_name_that_a_fifth_of_the_photos_have_is_no_question() -> None:
    for cows, there in ((4, True), (5, False)):
        captions = ["a cow"] * cows + ["a photo"] * (20 - cows)
        assert ("cow" in {one.name for one in everyday_names(captions, np.arange(20), 20)}) is there


def test_precision_is_of_each_query_in_each_template() -> None:
    names = everyday_names(["a cow", "a zebra", "a zebra", *COMMON_PHOTOS], np.arange(23), 23)
    assert asked(names) == ["cow", "zebra", "a photo of a cow", "a photo of a zebra"]
    scores = np.zeros((4, 23))
    scores[0, [0, 5]] = 2, 1  # its one photo first
    scores[1, [5, 1, 2]] = 3, 2, 1  # two right ones, second and third
    scores[2:, 22] = 1
    found = precision(scores, names)
    assert found[:2].tolist() == [[1.0, 1.0], [pytest.approx((1 / 2 + 2 / 3) / 2), 0.0]]
    assert found[2, 1] == 0


def test_collections_are_joined_with_their_owners_and_words() -> None:
    joined = together([photos(["a", "b"]), photos(["c", "d", "e"], [0, 0, 1])])
    assert joined.owner.tolist() == [0, 1, 2, 2, 3]
    assert list(joined.words) == ["a", "b", "c", "d", "e"] and joined.outputs.rows == 4
    assert unmentioned(together([photos(["an owl"]), photos(["two owls", "a dog"])]), ["owl"]).tolist() == [2]


CAPTIONS = [
    "A dog with a frisbee on the grass .",
    "a dog that is carrying the frisbee",
    "A woman rides a horse along the beach",
    "the woman on a horse",
    "a cat on a sofa",
    "the cat on a red sofa",
    "a horse beside a barn",
    "an old horse and a barn",
]
OWNER = [0, 0, 1, 1, 2, 2, 3, 3]


def test_texts_of_a_collection_are_present_and_those_of_others_absent_where_no_caption_has_their_noun() -> None:
    more = [f"a photo of number {number}" for number in range(60)]  # so that no noun is common
    gallery = SimpleNamespace(
        photos=photos([*CAPTIONS, *more[:56]], [*OWNER, *range(4, 60)]), captions=[*CAPTIONS, *more[:56]], size=60
    )
    texts: list[str] = []

    def encode(wanted: list[str]) -> np.ndarray:
        texts.extend(wanted)
        return np.tile(np.linspace(0, 1, 64), (len(wanted), 1)) * 0.01

    lengths = Lengths(cast("Any", gallery), cast("Any", SimpleNamespace(encode=encode)))
    judged = lengths.ask(np.array([0, 1]), np.random.default_rng(0), 50)
    kinds = np.array(judged.kinds)
    assert set(kinds) <= {kind + length for kind in (PRESENT, ABSENT) for length in LENGTHS}
    of_kind = {kind: [gallery.captions[caption] for caption in np.array(judged.captions)[kinds == kind]] for kind in set(kinds)}
    assert np.array(judged.present)[[kind.startswith(PRESENT) for kind in kinds]].all()
    assert not np.array(judged.present)[[kind.startswith(ABSENT) for kind in kinds]].any()
    assert set(of_kind[PRESENT + "caption"]) == set(CAPTIONS[:4])
    absent = set(of_kind[ABSENT + "caption"])
    assert set(CAPTIONS[4:6]) <= absent, "no caption of the collection has a cat or a sofa"
    assert set(CAPTIONS[6:8]) <= absent, "a horse is there, a barn is not"
    words = {text for text in texts if " " not in text}
    assert {"dog", "frisbee", "woman", "horse", "cat", "sofa", "barn"} <= words
    assert "grass" not in words and "beach" not in words, "only one of the photo's captions has it"
    assert set(of_kind[ABSENT + "one word"]) <= {*CAPTIONS[4:], *more}
