"""Models are swapped while people search over HTTP, and no answer fails or mixes versions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.cli import Finished, run_here
from tests.support.home import settings_for
from tests.support.pictures import write_photo, write_photos
from tests.support.served import Served, served_here
from tests.support.steady_load import TEXTS, Load, Ranking, all_same, ranking, same, steady_load

from lodestone.catalog.use_records import QueryRecord
from lodestone.config.settings import Settings
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.query_log.trace import Trace
from lodestone.spaces.bridge_weights import BridgeWeights
from lodestone_schemas.api import FeedbackRequest, SearchRequest

pytestmark = pytest.mark.slow

LITE1 = "efficientnet-lite1"
PICTURES = 24


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("swap")
    write_photos(folder / "pictures", PICTURES)
    settings = settings_for(folder)
    with Runtime.open(settings) as runtime:
        index_paths(runtime, IndexRequest((folder / "pictures",)))
    return settings


@pytest.fixture(scope="module")
def served(settings: Settings) -> Iterator[Served]:
    with served_here(settings) as service:
        yield service


def lodestone(settings: Settings, *arguments: str) -> Finished:
    done = run_here(*arguments, "--output", "json", home=settings.home, LODESTONE_INDEX__SLICE_SIZE="8")
    assert done.code == 0, done.err
    return done


def swap(settings: Settings, *arguments: str) -> str:
    """Take a step by the command line, which finds the service; the state that the swap is in then."""
    state: str = lodestone(settings, "models", "swap", "--executor", "inline", *arguments).json["state"]
    return state


def asked_now(served: Served) -> dict[str, Ranking]:
    with served.client() as client:
        return {
            text: ranking(client.search(SearchRequest(query=text, guides=0, limit=10, deadline_ms=30_000))) for text in TEXTS
        }


def recorded(served: Served, query_id: str) -> QueryRecord:
    """The record of an answer. An answer does not wait for it, so that of the last ones may still be on its way."""
    end = time.monotonic() + 180
    while (record := served.services.session.runtime.catalog.query(query_id)) is None:
        assert time.monotonic() < end, f"query {query_id} is not recorded"
        time.sleep(0.02)
    return record


def assert_whole_and_of_one_version(load: Load, served: Served, references: list[dict[str, Ranking]], space: str) -> set[str]:
    """Nothing failed, nothing was left out, each answer is exactly one version's; the collections that were searched."""
    assert load.failures == []
    collections: set[str] = set()
    for text, response in load.answers:
        assert (response.warnings, response.dropped) == ([], []), text
        assert response.space_weights.keys() == {"bridge", "labels"}
        assert any(same(ranking(response), reference[text]) for reference in references), text
        record = recorded(served, response.query_id)
        searched = {search.collection for search in Trace.from_bytes(record.trace).searches if search.space == space}
        assert len(searched) == 1
        collections |= searched
    return collections


def test_another_backbone_is_put_behind_a_space_and_taken_back_under_load(settings: Settings, served: Served) -> None:
    old = asked_now(served)
    with steady_load(served.address.url) as load:
        report = lodestone(settings, "models", "swap", "--executor", "inline", "--space", "labels", "--to", LITE1).json
        assert (report["state"], report["embedded"], report["computed"]) == ("shadow", PICTURES, [LITE1])
        assert all_same(asked_now(served), old)
        assert swap(settings, "--promote") == "promoted"
        new = asked_now(served)
        load.more()
        assert swap(settings, "--rollback") == "rolled_back"
        assert all_same(asked_now(served), old)
    assert not any(same(new[text], old[text]) for text in TEXTS)
    assert assert_whole_and_of_one_version(load, served, [old, new], "labels") == {
        report["old_collection"],
        report["new_collection"],
    }
    assert {same(ranking(response), old[text]) for text, response in load.answers} == {True, False}


def test_another_bridge_whose_words_lie_elsewhere_too_is_swapped_in_under_load(settings: Settings, served: Served) -> None:
    runtime = served.services.session.runtime
    shipped = BridgeWeights.shipped()
    other = replace(shipped, ridge_share=0.9)
    path = other.save(runtime.home.artifacts / "bridge")
    runtime.catalog.add_artifact("bridge", other.version, f"bridge/{path.name}", {})
    old = asked_now(served)
    with steady_load(served.address.url) as load:
        report = lodestone(settings, "models", "swap", "--space", "bridge", "--to", other.version).json
        assert (report["state"], report["embedded"]) == ("shadow", 0)
        assert swap(settings, "--promote") == "promoted"
        new = asked_now(served)
        assert swap(settings, "--finish") == "finished"
    assert not all_same(new, old)
    assert_whole_and_of_one_version(load, served, [old, new], "bridge")


def test_the_comparison_counts_what_people_called_right(settings: Settings, served: Served) -> None:
    with served.client() as client:
        said = client.search(SearchRequest(query=TEXTS[0], guides=0, limit=10))
        client.feedback(
            FeedbackRequest(query_id=said.query_id, relevant=[said.hits[0].image_id], irrelevant=[said.hits[1].image_id])
        )
    report = lodestone(settings, "models", "swap", "--executor", "inline", "--space", "labels", "--to", LITE1).json
    shadow = report["shadow"]
    assert shadow["queries"] == {"asked": len(TEXTS), "failed_old": 0, "failed_new": 0}
    assert 0 < shadow["overlap"]["mean"] <= 1
    assert shadow["neighbours"]["compared"] == PICTURES
    assert shadow["judged"]["queries"] == 1
    assert shadow["judged"]["old"]["recall"] == 1
    with served.client() as client:
        kept = client.search(SearchRequest(query=TEXTS[0], guides=0, limit=10))
        assert client.explain(kept.query_id).query_id == kept.query_id  # recorded by now: that goes on behind the answer
    assert served.services.session.runtime.catalog.queries(0, 1)[0].query_id == kept.query_id  # shadow queries are not recorded
    status = lodestone(settings, "models", "swap", "--status").json
    assert status[0]["state"] == "shadow"
    listed = {one["space"]: one for one in lodestone(settings, "models", "list").json["spaces"]}
    assert listed["labels"]["swap"] == {"to": LITE1, "state": "shadow"}
    assert swap(settings, "--cancel") == "cancelled"


@pytest.mark.nightly
def test_pictures_indexed_during_a_swap_are_found_before_and_after_its_promotion(
    settings: Settings, served: Served, tmp_path: Path
) -> None:
    assert swap(settings, "--space", "labels", "--to", LITE1) == "shadow"
    write_photo(tmp_path / "more" / "late.jpg", seed=900)
    lodestone(settings, "index", "--executor", "inline", str(tmp_path / "more"), "--corpus", "late")
    for step in ("--promote", "--rollback"):
        with served.client() as client:
            found = client.search(SearchRequest(query=TEXTS[0], guides=0, spaces=["labels"], limit=100))
        assert "late.jpg" in [hit.uri for hit in found.hits]
        swap(settings, step)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "say what to do"),
        (("--status", "--promote"), "say what to do"),
        (("--to", LITE1), "which space"),
        (("--space", "labels", "--to", ""), "empty"),
        (("--promote",), "no model swap is going on"),
    ],
)
def test_commands_that_cannot_be_meant_are_refused(settings: Settings, arguments: tuple[str, ...], says: str) -> None:
    done = run_here("models", "swap", *arguments, "--local", home=settings.home)
    assert done.code in {2, 3}
    assert says in done.err
    assert "hint:" in done.err
