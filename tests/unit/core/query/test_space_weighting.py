"""Weights of the spaces, as the engine asks for them."""

import numpy as np
import pytest
from tests.support.models import model_context

from lodestone.query.contracts import EqualWeights
from lodestone.query.weighting.choice import SpaceWeighting, make_weigher
from lodestone.spaces.registry import make_space
from lodestone.text_encoders.registry import make_text_encoder


@pytest.fixture(scope="module")
def spaces():
    made = {name: make_space(name, model_context()) for name in ("labels", "bridge")}
    for space in made.values():
        space.warm_up()
    return made


@pytest.fixture(scope="module")
def encoder():
    made = make_text_encoder("minilm", model_context())
    made.warm_up(threads=1)
    return made


def test_a_class_name_trusts_label_matching_and_a_sentence_the_bridge(spaces, encoder):
    weigher = make_weigher(spaces)
    assert isinstance(weigher, SpaceWeighting)
    name, sentence = (
        weigher.weights({"minilm": encoder.encode([text])}, ["bridge", "labels"])
        for text in ("a photo of a golden retriever", "two friends laugh about something that happened last year")
    )
    assert name["labels"] > 0.69 > 0.45 > sentence["labels"]
    assert sum(name.values()) == pytest.approx(1) == sum(sentence.values())


def test_a_bare_name_is_mostly_for_label_matching_and_what_only_resembles_one_is_shared(spaces, encoder):
    weigher = make_weigher(spaces)

    def share(text, **best):
        return weigher.weights({"minilm": encoder.encode([text])}, ["bridge", "labels"], best=best or None)["labels"]

    assert min(share(text) for text in ("golden retriever", "a golden retriever", "a photo of a golden retriever")) > 0.69
    assert 0.2 < share("golden retrievers playing with a golden retriever") <= 0.5  # the ceiling
    assert share("golden retriever", labels=0.1) < 0.1  # no picture shows one, as among drawings


def test_a_space_searched_alone_has_all_the_weight(spaces, encoder):
    encoded = {"minilm": encoder.encode(["a boat"])}
    assert make_weigher(spaces).weights(encoded, ["labels"]) == {"labels": 1.0}


def test_without_label_matching_all_spaces_are_equal(spaces):
    weigher = make_weigher({"bridge": spaces["bridge"]})
    assert isinstance(weigher, EqualWeights)
    assert weigher.weights({}, ["bridge", "clip"]) == {"bridge": 0.5, "clip": 0.5}


def test_ordinary_words_are_the_mean_class_name_in_the_bridge(spaces):
    bridge, labels = spaces["bridge"], spaces["labels"]
    found = make_weigher(spaces).ordinary_words()
    assert set(found) == {"bridge"}  # label matching is relative to the mean name as it is
    assert found["bridge"] == pytest.approx(bridge.project_texts(labels.label_vectors).mean(axis=0), abs=1e-6)
    assert np.linalg.norm(found["bridge"]) > 0.1
    assert make_weigher({"bridge": bridge}).ordinary_words() == {}


def test_a_query_that_is_weighed_twice_is_compared_with_the_class_names_once(spaces, encoder, monkeypatch):
    weigher, compared = make_weigher(spaces), []
    similarity = type(spaces["labels"]).label_similarity
    monkeypatch.setattr(
        type(spaces["labels"]), "label_similarity", lambda space, rows: compared.append(rows) or similarity(space, rows)
    )
    boat, dog = ({"minilm": encoder.encode([text])} for text in ("a boat", "a dog"))
    first, later = (
        weigher.weights(boat, ["bridge", "labels"]),
        weigher.weights(boat, ["bridge", "labels"], best={"labels": 0.1}),
    )
    assert len(compared) == 1
    assert first != later
    assert weigher.weights(dog, ["bridge", "labels"]) != first
    assert len(compared) == 2
