"""Tests of the table of route policies: how a row is found, and that rows and routes must fit each other."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from tests.support.fake_services import KNOWN_ID
from tests.support.route_expectations import (
    ADMITTED,
    BODIES,
    DEADLINES,
    EVERY_ROUTE,
    IDEMPOTENT,
    NO_SCOPE,
    OTHER_SCOPES,
    PAGES,
    PROBES,
    UNOBSERVED,
    WITHOUT_KEY,
    WITHOUT_RATE,
    path_of,
)

from lodestone_schemas.access import Scope
from lodestone_serve.http import application
from lodestone_serve.http.guarded_routes import check_routes, include_guarded
from lodestone_serve.http.openapi import document
from lodestone_serve.policy import (
    NO_ROUTE,
    PICTURE,
    TABLE,
    AccessRule,
    AdmissionRule,
    DeadlineRule,
    PolicyLookup,
    RoutePolicy,
    RoutePolicyError,
    has_openai_errors,
    policy_for,
)


@EVERY_ROUTE
def test_a_row_says_what_it_said(row: RoutePolicy) -> None:
    expected = "" if row.name in NO_SCOPE else OTHER_SCOPES.get(row.name, "search")
    assert " ".join(row.scopes) == expected
    assert (row.admission is AdmissionRule.QUERY) == (row.name in ADMITTED)
    assert (row.admission is AdmissionRule.LINES) == (row.name == "POST /v1/search/batch")
    assert row.idempotent == (row.name in IDEMPOTENT)
    assert row.deadline is DEADLINES.get(row.name, DeadlineRule.PATIENCE)
    assert row.probe == (row.name in PROBES)
    assert row.rate_limited == (row.name not in WITHOUT_RATE)
    assert row.observed == (row.name not in UNOBSERVED)
    assert row.access is {**dict.fromkeys(WITHOUT_KEY, AccessRule.OPEN), "GET /metrics": AccessRule.METRICS}.get(
        row.name, AccessRule.KEY
    )


def test_the_expectations_are_about_routes() -> None:
    named = {*NO_SCOPE, *OTHER_SCOPES, *ADMITTED, *IDEMPOTENT, *BODIES, *DEADLINES, *WITHOUT_RATE}
    assert named <= {row.name for row in TABLE}


@EVERY_ROUTE
def test_a_row_is_found_by_method_and_path(row: RoutePolicy) -> None:
    assert policy_for(row.method, path_of(row)) is row
    if row.method == "GET":
        assert policy_for("HEAD", path_of(row)) is row


@pytest.mark.parametrize("path", ["/v1/nothing", "/v1/images/a/b/similar", "/v1/search/", "/healthz/", "", "/v1/tags/a/b", "*"])
def test_what_is_no_route_has_the_usual_limits(path: str) -> None:
    for method in ("GET", "POST", "DELETE", "OPTIONS", "BREW"):
        assert policy_for(method, path) is NO_ROUTE
    assert (NO_ROUTE.access, NO_ROUTE.rate_limited, NO_ROUTE.observed) == (AccessRule.KEY, True, True)


def test_another_method_has_what_the_path_has_and_nothing_of_the_route() -> None:
    assert policy_for("POST", "/healthz").probe
    other = policy_for("DELETE", "/v1/search/image")
    assert other.body is PICTURE
    assert (other.admission, other.deadline, other.scopes) == (AdmissionRule.NONE, DeadlineRule.PATIENCE, ())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/models", True),
        ("/v1/models/", True),
        ("/v1/models/space/clip", True),
        ("/v1/embeddings", True),
        ("/v1/images/generations", True),
        ("/v1/images", False),
        (f"/v1/images/{KNOWN_ID}", False),
        ("/v1/modelsx", False),
        ("", False),
    ],
)
def test_problems_of_openais_routes_are_in_its_shape(path: str, *, expected: bool) -> None:
    assert has_openai_errors(path) is expected


ROW = RoutePolicy(method="POST", path="/v1/toys", scopes=(Scope.SEARCH,))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "FETCH"}, "method"),
        ({"path": "v1/toys"}, "slash"),
        ({"path": "/{any}/toys"}, "fixed"),
        ({"method": "GET", "idempotent": True}, "only reads"),
        ({"idempotent": True, "streams": True}, "cannot be kept"),
        ({"probe": True}, "without a key"),
        ({"access": AccessRule.OPEN}, "cannot need a scope"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RoutePolicyError, match=words):
        PolicyLookup([replace(ROW, **changes)])


def test_two_rows_of_one_route_are_refused() -> None:
    with pytest.raises(RoutePolicyError, match=r"POST /v1/toys.* twice"):
        PolicyLookup([ROW, replace(ROW, idempotent=True)])


def test_rows_of_one_path_share_what_holds_before_the_method_is_known() -> None:
    shared = ("access", "probe", "rate_limited", "observed", "body", "openai_errors")
    for row in TABLE:
        for other in TABLE:
            if row.path == other.path:
                assert [getattr(row, name) for name in shared] == [getattr(other, name) for name in shared], row.path


# -- rows and routes -----------------------------------------------------------------------------------------------------------


def toys(method: str = "POST") -> APIRouter:
    router = APIRouter()

    async def toy() -> None:
        return None

    router.add_api_route("/v1/toys", toy, methods=[method])
    return router


def test_rows_and_routes_that_fit_are_let_through() -> None:
    check_routes(toys().routes, [ROW])


@pytest.mark.parametrize(
    ("method", "rows", "words"),
    [
        ("POST", [], "the route POST '/v1/toys' has no row"),
        ("POST", [ROW, replace(ROW, path="/v1/games")], "the row POST '/v1/games' has no route"),
        ("GET", [ROW], "the route '/v1/toys' takes GET, and its row says POST"),
    ],
)
def test_rows_and_routes_that_differ_are_told(method: str, rows: list[RoutePolicy], words: str) -> None:
    with pytest.raises(RoutePolicyError, match=f"{re.escape(words)}.*: correct the route, or the table in"):
        check_routes(toys(method).routes, rows)


def test_a_route_of_several_methods_or_of_another_framework_is_refused() -> None:
    app = FastAPI(openapi_url=None)
    app.mount("/v1/files", app=FastAPI())
    with pytest.raises(RoutePolicyError, match="'/v1/files' is no route of FastAPI"):
        include_guarded(app, [toys()], table=[ROW])
    with pytest.raises(RoutePolicyError, match="once for each method"):
        check_routes([*toys().routes, *toys().routes], [ROW])


def test_a_route_of_the_app_itself_cannot_need_a_scope() -> None:
    app = FastAPI(openapi_url=None)

    @app.post("/v1/toys")
    async def toy() -> None:
        return None

    with pytest.raises(RoutePolicyError, match="declare its route in a router"):
        include_guarded(app, [], table=[ROW])
    include_guarded(app, [], table=[replace(ROW, scopes=())])


@pytest.mark.parametrize(("router", "words"), [(APIRouter(), "'/v1/access' has no route"), (toys(), "'/v1/toys' has no row")])
def test_the_service_does_not_start_when_they_differ(monkeypatch: pytest.MonkeyPatch, router: APIRouter, words: str) -> None:
    monkeypatch.setattr(application, "access_router", lambda *_: router)
    with pytest.raises(RoutePolicyError, match=words):
        document()


def test_the_document_shows_the_bodies_and_streams_of_the_table() -> None:
    paths = json.loads(document())["paths"]
    for row in TABLE:
        if row.path == "/openapi.json" or row.name in PAGES:
            continue
        operation = paths[row.path.replace(":path", "")][row.method.lower()]
        kinds = set(operation.get("requestBody", {"content": {row.body.media_type: {}}})["content"])
        assert kinds == {row.body.media_type}, row.name
        answers = set(operation["responses"].get("200", {}).get("content", {}))
        assert bool(answers & {"text/event-stream", "application/x-ndjson"}) == row.streams, row.name
