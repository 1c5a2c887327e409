"""Both clients can ask everything that the service answers, and take each parameter that there is."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from tests.support.fake_services import FakeServices

from lodestone.config.settings import ServeSettings
from lodestone.errors import LodestoneError
from lodestone_client import AsyncLodestone, Lodestone, RetryPolicy
from lodestone_schemas.access import KeyRequest
from lodestone_schemas.api import (
    BrowseRequest,
    FacetsRequest,
    FeedbackRequest,
    SearchFilters,
    SearchOptions,
    SearchRequest,
    TagRequest,
)
from lodestone_schemas.directories import DirectoryChange, DirectoryRelocation, DirectoryRequest, DirectorySplit
from lodestone_schemas.openai import DrawingRequest, EmbeddingsRequest
from lodestone_schemas.swaps import ShadowRequest
from lodestone_schemas.timeline import EventsRequest
from lodestone_serve.http.application import create_app

ID = "5f0f7a52-6f62-5b1f-9d3e-0a4f6d1c2b3a"
# One call of every method that sends something; iterators ask by the methods whose pages they read.
CALLS: dict[str, Callable[[Lodestone], Any]] = {
    "search": lambda c: c.search("a"),
    "stream": lambda c: list(c.stream(SearchRequest(query="a"))),
    "resume": lambda c: list(c.resume(ID, f"{ID}.1")),
    "search_many": lambda c: list(c.search_many(["a", "b"])),
    "similar": lambda c: c.similar(ID, SearchOptions(limit=3)),
    "by_picture": lambda c: c.by_picture(b"\x89PNG", more=[b"\x89PNG"]),
    "tag_picture": lambda c: c.tag_picture(b"\x89PNG"),
    "tag_image": lambda c: c.tag_image(ID),
    "by_url": lambda c: c.by_url("https://pictures.example/a.jpg"),
    "image": lambda c: c.image(ID),
    "events": lambda c: c.events(EventsRequest(kind="trip", filters=SearchFilters(path_prefix="2024"), cursor="c")),
    "facets": lambda c: c.facets(FacetsRequest(of="place", filters=SearchFilters(path_prefix="2024"))),
    "browse": lambda c: c.browse(BrowseRequest(filters=SearchFilters(path_prefix="2024"), cursor="c")),
    "tag_texts": lambda c: c.tag_texts(10, source="user"),
    "images": lambda c: c.images("family", 10, cursor="c"),
    "thumbnail": lambda c: c.thumbnail(ID),
    "content": lambda c: c.content(ID),
    "corpora": lambda c: c.corpora(10, 5),
    "rename_corpus": lambda c: c.rename_corpus("family", "relatives"),
    "remove_corpus": lambda c: c.remove_corpus("family"),
    "directories": lambda c: c.directories(cursor="c"),
    "directory": lambda c: c.directory(ID),
    "add_directory": lambda c: c.add_directory(DirectoryRequest(path="/pictures")),
    "change_directory": lambda c: c.change_directory(ID, DirectoryChange(enabled=False)),
    "relocate_directory": lambda c: c.relocate_directory(ID, DirectoryRelocation(path="/pictures")),
    "split_directory": lambda c: c.split_directory(ID, DirectorySplit(folder="2018")),
    "index_directory": lambda c: c.index_directory(ID),
    "remove_directory": lambda c: c.remove_directory(ID),
    "remove_image": lambda c: c.remove_image(ID),
    "jobs": lambda c: c.jobs(),
    "cancel_job": lambda c: c.cancel_job(ID),
    "queries": lambda c: c.queries(5, 10),
    "explain": lambda c: c.explain(ID),
    "replay": lambda c: c.replay(ID, fresh=True),
    "guide_picture": lambda c: c.guide_picture(ID, "exemplar/0"),
    "feedback": lambda c: c.feedback(FeedbackRequest(query_id=ID)),
    "withdraw_feedback": lambda c: c.withdraw_feedback(FeedbackRequest(query_id=ID)),
    "trust": lambda c: c.trust(),
    "trust_events": lambda c: c.trust_events(topic="t"),
    "generators": lambda c: c.generators(),
    "tags": lambda c: c.tags(corpus="c", image_id=ID, text="t", source="user", cursor="c"),
    "add_tags": lambda c: c.add_tags(TagRequest(image_ids=[ID], text="t")),
    "remove_tag": lambda c: c.remove_tag(ID),
    "runs": lambda c: c.runs(5, corpus="c", kind="index", state="done"),
    "run": lambda c: c.run(ID),
    "cancel_run": lambda c: c.cancel_run(ID),
    "run_failures": lambda c: c.run_failures(ID, cursor="c"),
    "models": lambda c: c.models(),
    "model": lambda c: c.model("bridge"),
    "embeddings": lambda c: c.embeddings(EmbeddingsRequest(model="bridge", input="a")),
    "generate_images": lambda c: c.generate_images(DrawingRequest(prompt="a")),
    "alive": lambda c: c.alive(),
    "ready": lambda c: c.ready(),
    "metrics": lambda c: c.metrics(),
    "status": lambda c: c.status(),
    "keys": lambda c: c.keys(),
    "create_key": lambda c: c.create_key(KeyRequest(name="k")),
    "rotate_key": lambda c: c.rotate_key("k"),
    "revoke_key": lambda c: c.revoke_key("k"),
    "shadow": lambda c: c.shadow(ShadowRequest(space="bridge")),
    "find_duplicates": lambda c: list(c.find_duplicates()),
    "verify": lambda c: list(c.verify()),
    "sync": lambda c: list(c.sync()),
}
ITERATORS = {"iter_images", "iter_corpora", "iter_directories", "iter_queries", "iter_tags", "iter_runs", "iter_run_failures"}


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    app = create_app(FakeServices(tmp_path_factory.mktemp("fake")), settings=ServeSettings(), token="t")
    return app.openapi()


@pytest.fixture
def asked() -> list[httpx.Request]:
    return []


@pytest.fixture
def client(asked: list[httpx.Request]) -> Iterator[Lodestone]:
    """Of a service that refuses everything and remembers what it was."""

    def refuse(request: httpx.Request) -> httpx.Response:
        request.read()
        asked.append(request)
        return httpx.Response(418, json={"title": "t", "status": 418, "code": "refused", "detail": "for the test"})

    transport = httpx.MockTransport(refuse)
    with Lodestone("http://service.example", policy=RetryPolicy(attempts=1), transport=transport) as opened:
        yield opened


def operation(document: dict[str, Any], request: httpx.Request) -> tuple[str, str]:
    """The (method, path) of the document that a request is one of; the most particular path wins."""
    path = request.url.raw_path.decode().partition("?")[0]
    for template in sorted(document["paths"], key=lambda one: (one.count("{"), -len(one))):
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template))
        if request.method.lower() in document["paths"][template] and re.fullmatch(pattern, path):
            return request.method.lower(), template
    raise AssertionError(f"the service has no {request.method} {path}")


def send(client: Lodestone, name: str) -> None:
    with pytest.raises(LodestoneError, match="for the test"):
        CALLS[name](client)


def public(kind: type) -> dict[str, Callable[..., Any]]:
    return {name: found for name, found in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def test_every_method_is_tried_here() -> None:
    assert set(public(Lodestone)) - {"close"} == set(CALLS) | ITERATORS


def test_every_route_can_be_asked(client: Lodestone, asked: list[httpx.Request], document: dict[str, Any]) -> None:
    for name in CALLS:
        send(client, name)
    reached = {operation(document, request) for request in asked}
    routes = {(method, path) for path, methods in document["paths"].items() for method in methods}
    # POST in another spelling; sessions, which are for browsers: programs send their key; and what the search page alone asks.
    assert routes - reached == {
        ("get", "/v1/search"),
        ("post", "/v1/session"),
        ("delete", "/v1/session"),
        ("post", "/v1/session/unlock"),
        ("get", "/v1/access"),
        ("post", "/v1/images/paths"),
    }


@pytest.mark.parametrize("name", CALLS)
def test_what_is_sent_is_what_the_service_takes(
    client: Lodestone, asked: list[httpx.Request], document: dict[str, Any], name: str
) -> None:
    send(client, name)
    (request,) = asked
    method, path = operation(document, request)
    described = document["paths"][path][method]
    known = {one["name"] for one in described.get("parameters", []) if one["in"] == "query"}
    assert set(request.url.params) <= known
    kinds = set(described.get("requestBody", {}).get("content", {}))
    given = request.headers.get("content-type", "").partition(";")[0]
    assert ({given} <= kinds) if kinds else not request.content


# What a list can be asked for, beside the selection of fields: answers are typed, and so are whole.
LISTS = ["images", "corpora", "directories", "queries", "tags", "runs", "run_failures", "keys"]


@pytest.mark.parametrize("name", LISTS)
def test_lists_take_each_parameter_that_there_is(
    client: Lodestone, asked: list[httpx.Request], document: dict[str, Any], name: str
) -> None:
    send(client, name)
    method, path = operation(document, asked[0])
    known = {one["name"] for one in document["paths"][path][method]["parameters"] if one["in"] == "query"}
    assert known - {"fields"} <= set(inspect.signature(getattr(Lodestone, name)).parameters)


def test_both_clients_have_the_same_methods() -> None:
    first, second = public(Lodestone), public(AsyncLodestone)
    assert set(first) == set(second)
    for name, method in first.items():
        other = second[name]
        assert inspect.signature(method).parameters == inspect.signature(other).parameters, name
        assert inspect.getdoc(method) == inspect.getdoc(other), name
        returned, awaited = (inspect.signature(one).return_annotation for one in (method, other))
        assert awaited.replace("AsyncIterator", "Iterator") == returned, name
