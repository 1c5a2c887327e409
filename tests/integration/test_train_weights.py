"""Weights of modalities learnt in a home with real models: put in force and kept with a card; bad pairs are counted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.cli import run_here
from tests.support.homes import home_settings, index, wait_until
from tests.support.pictures import write_photo, write_photos

from lodestone.composed.learned import LearnedWeights, weights_kind
from lodestone.composed.weights import ModalityWeights
from lodestone.config.compositions import Role, choose_composition
from lodestone.errors import InvalidRequestError, UnknownNameError
from lodestone.home.runtime import Runtime
from lodestone.query.asking.tree import Compose, Image, Leaf, Picture, Text
from lodestone.training.feedback_pairs import pairs_of_feedback
from lodestone.training.retrain_weights import train_weights
from lodestone_schemas.api import SearchOptions

_COLOURS = ("red", "green", "blue", "yellow", "black", "white")
_THINGS = ("car", "house", "dog", "tree", "boat")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty made-up pictures, each but three with a caption of its own; pairs whose words say what the caption says."""
    root = tmp_path_factory.mktemp("weights")
    paths = write_photos(root / "pictures", 30)
    captions = [f"a {colour} {thing}" for colour in _COLOURS for thing in _THINGS]
    for path, caption in list(zip(paths, captions, strict=True))[3:]:
        path.with_suffix(".txt").write_text(caption)
    write_photo(root / "elsewhere.jpg", seed=99)
    (root / "broken.jpg").write_bytes(b"no picture")
    index(home_settings(root / "home"), root / "pictures")
    pairs: list[dict[str, Any]] = [
        {"reference": paths[(row + 7) % 30].name, "words": f"the {caption[2:]}", "target": path.name}
        for row, (path, caption) in enumerate(zip(paths, captions, strict=True))
        if row >= 3
    ]
    pairs += [
        {"reference": "elsewhere.jpg", "words": "a white boat", "without": "a red car", "target": paths[29].name},
        {"reference": "broken.jpg", "words": "a white boat", "target": paths[29].name},
        {"reference": "gone.jpg", "words": "a white boat", "target": paths[29].name},
        {"words": "a cat", "target": "gone.jpg"},
    ]
    (root / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    return root


def test_weights_are_learnt_put_in_force_and_kept_with_a_card(home: Path) -> None:
    with Runtime.open(home_settings(home / "home")) as runtime:
        composition = choose_composition("default", {}, runtime.configured)
        names = [modality.name for modality in composition.modalities]
        assert dict(runtime.modality_weights(composition)) == dict(ModalityWeights.equal(names))

        report = train_weights(runtime, home / "pairs.jsonl", composition="default", dry_run=True)
        assert not report.promoted
        assert runtime.catalog.artifacts(weights_kind("default")) == []

        report = train_weights(runtime, home / "pairs.jsonl", composition="default")
        assert report.promoted
        assert report.learning.anchors + report.learning.held_out == 28
        assert report.learning.objects == 30
        assert sum(report.skipped.counts.values()) == 3
        assert {example.split(":")[0] for example in report.skipped.examples} == {"line 29", "line 30", "line 31"}
        learnt = runtime.modality_weights(composition)
        assert list(learnt) == names
        assert learnt["captions"] > 1 / len(names)  # the words are the captions'
        active = runtime.catalog.active_artifact(weights_kind("default"))
        assert active is not None
        saved = LearnedWeights.load(runtime.home.artifacts / active.path)
        assert saved.version == active.version == report.version
        assert saved.collections["bridge"] == runtime.projections()["bridge"].collection
        assert saved.card["pairs"] == 28
        assert json.loads(json.dumps(report.as_dict()))["curve"][0]["round"] == 0


def test_weights_of_the_settings_go_first_and_those_of_other_modalities_are_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Runtime.open(home_settings(tmp_path / "home")) as runtime:
        composition = choose_composition("default", {}, runtime.configured)
        names = [modality.name for modality in composition.modalities]
        assert dict(runtime.modality_weights(composition)) == dict(ModalityWeights.equal(names))  # without creating a home
        assert not runtime.home.exists()

        learnt = LearnedWeights("default", ModalityWeights({name: float(name == "captions") for name in names}))
        for saved in (learnt, LearnedWeights("default", ModalityWeights({"sound": 1.0}))):
            runtime.catalog.add_artifact(weights_kind("default"), saved.version, saved.path, {})
            saved.save(runtime.home.artifacts)
        runtime.catalog.activate_artifact(weights_kind("default"), learnt.version)
        assert runtime.modality_weights(composition)["captions"] == 1.0
        set_by_hand = replace(composition, weights={"captions": 1.0, "bridge-words": 3.0})
        assert runtime.modality_weights(set_by_hand)["bridge-words"] == 0.75

        runtime.catalog.activate_artifact(weights_kind("default"), saved.version)
        assert dict(runtime.modality_weights(composition)) == dict(ModalityWeights.equal(names))
        assert "other modalities (sound)" in caplog.text


def test_the_command_prints_the_validation_curve_and_what_was_left_out(home: Path) -> None:
    result = run_here("train", "weights", str(home / "pairs.jsonl"), "--dry-run", home=home / "home")
    assert result.code == 0, result.err
    assert "held-out recall@10" in result.out
    assert "3 pairs could not be used" in result.out
    assert "dry run" in result.out


async def test_weights_are_learnt_from_judged_answers_to_composed_queries(home: Path, tmp_path: Path) -> None:
    captions = [f"the {colour} {thing}" for colour in _COLOURS for thing in _THINGS]
    with Runtime.open(home_settings(home / "home")) as runtime:
        catalog = runtime.catalog
        with pytest.raises(InvalidRequestError, match="nothing to learn from"):
            train_weights(runtime, None, composition="default")
        catalog.add_feedback("forgotten", ["a"], [], 0.2)
        with pytest.raises(InvalidRequestError, match="no recorded query of words and pictures has feedback"):
            train_weights(runtime, None, composition="default", feedback=True)
        (root,) = catalog.roots(None)
        ids = [one.image_id for one in sorted(catalog.images_of_root(root.root_id), key=lambda one: one.uri)]
        engine = runtime.engine()

        async def judged(row: int, *pictures: Leaf) -> str:
            parts = ((Text(captions[row]), 1.0), *((one, 1.0) for one in pictures), (Text("people"), -0.5))
            response = await engine.composed(Compose(parts), SearchOptions(limit=5))
            wait_until(lambda: catalog.has_query(response.query_id))
            catalog.add_feedback(response.query_id, [ids[row], ids[0]], [ids[0]], 0.2)  # the last word on it: wrong
            return response.query_id

        composition = choose_composition("default", {}, runtime.configured)
        collections = {name: one.collection for name, one in runtime.serving_projections().items()}
        drawn = Picture(np.full((64, 64, 3), (200, 30, 30), np.uint8))
        two = await judged(3, Image(ids[10]), drawn)
        one = await judged(4, Image(ids[11]))
        pairs, forgotten = pairs_of_feedback(catalog, composition, collections)
        found = {pair.query_id: pair for pair in pairs}
        assert forgotten == 1
        assert (found[one].reference, found[one].words, found[one].without) == (ids[11], captions[4], "people")
        assert found[one].targets == (ids[4],)
        assert not found[one].vectors
        assert found[two].reference is None
        assert set(found[two].vectors) == {modality.name for modality in composition.of_role(Role.TARGET)}
        with pytest.raises(InvalidRequestError, match="2 queries are too few"):
            train_weights(runtime, None, composition="default", feedback=True)
        for row in range(5, 30):
            await judged(row, Image(ids[(row + 7) % 30]))
        report = train_weights(runtime, None, composition="default", feedback=True, dry_run=True)
        assert report.learning.anchors + report.learning.held_out == 27
        assert dict(report.skipped.counts) == {"no longer recorded": 1}
        both = train_weights(runtime, home / "pairs.jsonl", composition="default", feedback=True, dry_run=True)
        assert both.learning.anchors + both.learning.held_out == 27 + 28
    result = run_here("train", "weights", "--from-feedback", "--dry-run", home=home / "home")
    assert result.code == 0, result.err
    assert "dry run" in result.out


def test_what_cannot_be_learnt_from_is_refused(home: Path, tmp_path: Path) -> None:
    with Runtime.open(home_settings(home / "home")) as runtime:
        with pytest.raises(UnknownNameError):
            train_weights(runtime, home / "pairs.jsonl", composition="none")
        unknown = tmp_path / "unknown.jsonl"
        unknown.write_text('{"words": "a cat", "target": "gone.jpg"}')
        with pytest.raises(InvalidRequestError, match="none of the 1 pairs"):
            train_weights(runtime, unknown, composition="default")
        long = tmp_path / "long.jsonl"
        long.write_text('{"vectors": {"bridge-picture": [1, 2]}, "target": "000001.jpg"}')
        with pytest.raises(InvalidRequestError, match="line 1: the vector of 'bridge-picture' has 2 numbers"):
            train_weights(runtime, long, composition="default")
