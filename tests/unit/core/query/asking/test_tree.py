"""The nodes of queries: what each of them refuses when it is made."""

import math

import numpy as np
import pytest

from lodestone.errors import InvalidRequestError
from lodestone.query.asking.tree import And, Compose, Image, Not, Or, Picture, Text, Vector, Where
from lodestone_schemas.api import SearchFilters

PIXELS = np.zeros((4, 6, 3), np.uint8)


def test_words_are_kept_in_their_normal_form():
    assert Text("  two\tdogs ").words == "two dogs"
    assert Text("cafe\u0301") == Text("caf\u00e9")


def test_vectors_are_kept_at_length_one():
    (vector,) = Vector({"labels": np.array([3.0, 4.0])}).by_space.values()
    assert vector.dtype == np.float32
    np.testing.assert_allclose(vector, [0.6, 0.8], rtol=1e-6)


def test_nodes_are_values_that_can_be_nested():
    query = Where(SearchFilters(corpora=["a"]), Compose(((Text("a dog"), 1.0), (Not(Image("b")), -0.5))))
    assert query == Where(SearchFilters(corpora=["a"]), Compose(((Text("a dog"), 1.0), (Not(Image("b")), -0.5))))
    with pytest.raises(AttributeError):
        query.query = Text("a cat")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Text(" \u200b"), "the query is empty"),
        (lambda: Text("x" * 10_000), "10000 characters"),
        (lambda: Image(""), "names no picture"),
        (lambda: Picture(PIXELS[..., :1]), r"shape \(4, 6, 1\)"),
        (lambda: Picture(PIXELS[:0]), r"shape \(0, 6, 3\)"),
        (lambda: Picture(PIXELS.astype(np.float32)), "float32"),
        (lambda: Vector({}), "holds no vector"),
        (lambda: Vector({"labels": np.zeros(4, np.float32)}), "length 0"),
        (lambda: Vector({"labels": np.array([1.0, np.nan], np.float32)}), "length nan"),
        (lambda: Vector({"labels": np.ones((2, 2), np.float32)}), r"shape \(2, 2\)"),
        (lambda: Compose(()), "Compose has no part"),
        (lambda: Compose((("a dog", 1.0),)), "a part of Compose is a str"),
        (lambda: Compose(((Text("a dog"), math.inf),)), "weight inf"),
        (lambda: Compose(((Text("a dog"), math.nan),)), "weight nan"),
        (lambda: Compose(((Text("a dog"), -1.0), (Text("a cat"), 0.0))), "no part of the query has a weight above 0"),
        (lambda: Compose(((Text("a dog"), 1.0),), names=("a", "b")), "1 parts of the query are named a, b"),
        (lambda: Compose(((Text("a"), 1.0), (Text("b"), 1.0)), names=("a", "a")), "2 parts of the query are named"),
        (lambda: Compose(((Text("a dog"), 1.0),), diversity=1.5), "the diversity is 1.5"),
        (lambda: Compose(((Text("a dog"), 1.0),), diversity=math.nan), "the diversity is nan"),
        (lambda: And(()), "And has no part"),
        (lambda: Or((Text("a dog"), None)), "a part of Or is a NoneType"),
        (lambda: Not("a dog"), "a part of Not is a str"),
        (lambda: Where(SearchFilters(), "a dog"), "a part of Where is a str"),
    ],
)
def test_a_node_that_makes_no_sense_is_refused_with_what_to_do(make, message):
    with pytest.raises(InvalidRequestError, match=message) as raised:
        make()
    assert raised.value.hint
