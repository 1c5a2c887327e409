"""Metrics are what the table says, bounded, and the same for both exporters."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lodestone_schemas.api import GateDecision, GuideInfo, SearchResponse
from lodestone_serve.telemetry import metric_table as table
from lodestone_serve.telemetry.instruments import MOST_SERIES
from lodestone_serve.telemetry.metric_table import TABLE, Definition
from lodestone_serve.telemetry.metrics import Metrics


class Recorded:
    """A mirror that keeps what it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, dict[str, str], float]] = []

    def add(self, definition: Definition, labels: Mapping[str, str], amount: float) -> None:
        self.seen.append(("add", definition.name, dict(labels), amount))

    def put(self, definition: Definition, labels: Mapping[str, str], value: float) -> None:
        self.seen.append(("put", definition.name, dict(labels), value))

    def observe(self, definition: Definition, labels: Mapping[str, str], value: float) -> None:
        self.seen.append(("observe", definition.name, dict(labels), value))


def response(**changed: object) -> SearchResponse:
    given = {"query_id": "q1", "stage": "text", "hits": [], "fusion": "rrf", "space_weights": {}, "timings_ms": {"encode": 3.0}}
    return SearchResponse.model_validate({**given, **changed})


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0.0


def test_every_definition_is_exported_and_nothing_else_of_ours() -> None:
    families = text_string_to_metric_families(Metrics().exposition().decode())
    ours = [one for one in families if one.name.startswith("lodestone_") and not one.name.endswith("_created")]
    found = {(family.name, family.type) for family in ours}
    assert found == {(one.name, one.kind) for one in TABLE}


def test_the_table_is_sound() -> None:
    assert len({one.name for one in TABLE}) == len(TABLE)
    defined = {one for one in vars(table).values() if isinstance(one, Definition)}
    assert defined == set(TABLE), "defined, and missing in TABLE"
    for one in TABLE:
        assert one.help.endswith("."), one.name
        assert not one.name.endswith("_total"), one.name
        assert (one.kind == "histogram") == bool(one.buckets), one.name
        assert list(one.buckets) == sorted(one.buckets), one.name
        assert all(bound > 0 for bound in one.buckets), "Ray refuses bounds that are not above 0"


def test_a_mirror_is_told_the_same() -> None:
    mirror = Recorded()
    metrics = Metrics(mirror)
    metrics.observe_request("GET", "/v1/search", 200, 0.25)
    with metrics.in_flight.track_inprogress():
        assert value(metrics, "lodestone_queries_in_flight") == 1
    metrics.engines.asked("exemplar", "ok", 0.5, 3, 0.0)
    assert mirror.seen == [
        ("add", "lodestone_http_requests", {"method": "GET", "route": "/v1/search", "status": "200"}, 1.0),
        ("observe", "lodestone_http_request_seconds", {"route": "/v1/search"}, 0.25),
        ("put", "lodestone_queries_in_flight", {}, 1.0),
        ("put", "lodestone_queries_in_flight", {}, 0.0),
        ("add", "lodestone_generator_calls", {"engine": "exemplar", "outcome": "ok"}, 1.0),
        ("add", "lodestone_generator_guides", {"engine": "exemplar"}, 3),
        ("observe", "lodestone_generator_seconds", {"engine": "exemplar"}, 0.5),
    ], "a cost of 0 is no growth: Ray refuses it"


def test_a_method_that_nobody_knows_does_not_make_a_series() -> None:
    metrics = Metrics()
    for number in range(20):
        metrics.observe_request(f"BREW{number}", "unmatched", 405, 0.001)
    assert value(metrics, "lodestone_http_requests_total", method="other", route="unmatched", status="405") == 20


def test_series_of_a_metric_are_bounded() -> None:
    metrics = Metrics()
    for number in range(MOST_SERIES + 30):
        metrics.engines.cache(f"result {number}")
    families = {family.name: family for family in text_string_to_metric_families(metrics.exposition().decode())}
    counted = [one for one in families["lodestone_guide_cache"].samples if one.name.endswith("_total")]
    assert len(counted) <= MOST_SERIES + 1
    assert value(metrics, "lodestone_guide_cache_total", result="other") >= 30
    assert sum(one.value for one in counted) == MOST_SERIES + 30


def test_what_alerts_look_for_exists_before_it_first_happens() -> None:
    text = Metrics().exposition().decode()
    for series in (
        'lodestone_errors_total{code="store_failed",status="503"} 0.0',
        'lodestone_errors_total{code="internal_error",status="500"} 0.0',
        'lodestone_queries_shed_total{reason="overloaded"} 0.0',
        'lodestone_answers_total{stage="text"} 0.0',
    ):
        assert series in text, "a rate does not see the growth from nothing to 1"


def test_wrong_labels_are_a_defect_that_shows() -> None:
    with pytest.raises(ValueError, match="lodestone_errors has the labels"):
        Metrics().errors.labels("only one")


def test_threads_lose_no_change_of_a_gauge() -> None:
    mirror = Recorded()
    metrics = Metrics(mirror)

    def work() -> None:
        for _ in range(500):
            with metrics.in_flight.track_inprogress():
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert value(metrics, "lodestone_queries_in_flight") == 0
    assert mirror.seen[-1][-1] == 0, "the last value that the other exporter got is the true one"


def test_series_of_what_is_gone_are_forgotten() -> None:
    mirror = Recorded()
    home = Metrics(mirror).home
    home.points.labels("old").set(7)
    home.points.labels("new").set(8)
    home.points.forget(besides={("new",)})
    assert mirror.seen[-1] == ("put", "lodestone_collection_points", {"space": "old"}, 0.0)
    home.points.labels("old").set(1)
    assert mirror.seen[-1][-1] == 1


def test_what_an_answer_lacks_is_counted() -> None:
    metrics = Metrics()
    metrics.observe_answer(response(dropped=["guides: out of time"]))
    metrics.observe_answer(response(stage="guides", dropped=["more guides: stable after 2 of 6 guides"]))
    assert value(metrics, "lodestone_answers_total", stage="text") == 1
    assert value(metrics, "lodestone_answers_total", stage="guides") == 1
    assert value(metrics, "lodestone_answers_late_total") == 1
    assert value(metrics, "lodestone_answers_empty_total") == 2


def test_guides_that_were_not_needed_are_counted() -> None:
    metrics = Metrics()
    simple = GateDecision(verdict="simple", predicted_ap=0.9, threshold=0.5, why="the words say it")
    guide = GuideInfo(guide_id="exemplar/0", engine="exemplar", weight=1.0, provenance={})
    metrics.observe_saved(response(gate=simple), guides=6)
    metrics.observe_saved(response(guides=[guide], dropped=["more guides: stable after 1 of 6 guides"]), guides=6)
    metrics.observe_saved(response(guides=[guide], dropped=["guides: out of time"]), guides=6)
    assert value(metrics, "lodestone_guides_saved_total", reason="gate") == 6
    assert value(metrics, "lodestone_guides_saved_total", reason="stable") == 5
