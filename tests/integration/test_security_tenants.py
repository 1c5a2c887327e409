"""A key of one corpus sees nothing of another, on any route there is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.served import served_here
from tests.support.tenants import OTHER, OWN, Tenants, make_tenants

NAMED = re.compile(r"{[a-z_]+}")  # a request for something of the other corpus
UNKNOWN = "00000000-0000-5000-8000-000000000000"
ALIKE = "boats in a harbour at dawn"  # finds whatever is captioned so
WORDS = f"{OTHER} boats in a harbour at dawn"
PICTURE_ROUTES = {"/v1/search/image", "/v1/images/tags"}

# What is sent to each route that takes a body; `{…}` stands for an id of the other corpus. A new route fails the walk until it
# stands here.
BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("post", "/v1/search"): {"query": ALIKE, "explain": True},
    ("post", "/v1/search/stream"): {"query": ALIKE},
    ("post", "/v1/search/batch"): {"query": ALIKE},
    ("post", "/v1/search/url"): {"url": "https://example.org/a.jpg"},
    ("post", "/v1/feedback"): {"query_id": "{query_id}", "relevant": ["{image_id}"]},
    ("post", "/v1/feedback/withdraw"): {"query_id": "{query_id}", "relevant": ["{image_id}"]},
    ("post", "/v1/images/paths"): {"image_ids": ["{image_id}"]},
    ("post", "/v1/images/browse"): {"filters": {"corpora": ["{name}"]}},
    ("post", "/v1/events"): {"filters": {"corpora": ["{name}"]}},
    ("post", "/v1/images/facets"): {"of": "shape", "filters": {"corpora": ["{name}"]}},
    ("post", "/v1/session/unlock"): {"code": "a-code-that-nobody-was-offered"},
    ("post", "/v1/tags"): {"image_ids": ["{image_id}"], "text": "a boat"},
    ("post", "/v1/directories"): {"path": "{path}", "corpus": "{name}"},
    ("patch", "/v1/directories/{directory_id}"): {"enabled": False},
    ("patch", "/v1/corpora/{name}"): {"name": "renamed"},
    ("post", "/v1/directories/{directory_id}/relocate"): {"path": "{path}"},
    ("post", "/v1/directories/{directory_id}/split"): {"folder": "2018"},
    ("post", "/v1/embeddings"): {"model": "bridge", "input": ["a boat"]},
    ("post", "/v1/images/generations"): {"prompt": "a boat"},
    ("post", "/v1/internal/duplicates"): {"corpus": "{name}"},
    ("post", "/v1/internal/verify"): {},
    ("post", "/v1/internal/sync"): {},
    ("post", "/v1/internal/shadow"): {"space": "bridge"},
    ("post", "/v1/keys"): {"name": "mine", "scopes": ["search"]},
    ("post", "/v1/keys/{key_id}/rotate"): {},
}
# Query parameters that name something of the other corpus, beside the request without any.
PARAMETERS: dict[str, list[dict[str, str]]] = {
    "/v1/search": [{"q": ALIKE}, {"q": ALIKE, "corpora": "{name}"}],
    "/v1/images": [{"corpus": "{name}"}],
    "/v1/tags": [{"corpus": "{name}"}, {"image_id": "{image_id}"}, {"text": WORDS}],
    "/v1/runs": [{"corpus": "{name}"}],
    "/v1/images/{image_id}/similar": [{"corpora": "{name}"}],
}
WITHOUT_TENANTS = {
    "/healthz",
    "/readyz",
    "/metrics",
    "/v1/session",
    "/v1/access",
    "/v1/status",
    "/v1/models",
    "/v1/models/{model_id}",
    "/v1/generators",
}
FORBIDDEN = {
    "/v1/images/paths",
    "/v1/session/unlock",
    "/v1/trust/events",
    "/v1/internal/sync",
    "/v1/internal/shadow",
    "/v1/keys",
    "/v1/keys/{key_id}",
    "/v1/keys/{key_id}/rotate",
    "/metrics",
}


@dataclass
class Known:
    """Ids of the other corpus, by the name of a route's parameter; and every id of its that there is."""

    ids: dict[str, str]
    all: set[str] = field(default_factory=set)


@dataclass
class Home:
    tenants: Tenants
    http: httpx.Client
    other: Known

    def ask(self, method: str, path: str, who: str = OWN, **options: Any) -> httpx.Response:
        headers = {**self.tenants.headers(who), **options.pop("headers", {})}
        return self.http.request(method, path, headers=headers, **options)


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Tenants:
    return make_tenants(tmp_path_factory.mktemp("tenants"))


@pytest.fixture(scope="module")
def home(tenants: Tenants) -> Iterator[Home]:
    with served_here(tenants.settings) as served, httpx.Client(base_url=served.address.url, timeout=60) as http:
        home = Home(tenants, http, Known({}))
        home.other = _done_by_the_other(home)
        yield home


def _done_by_the_other(home: Home) -> Known:
    """The other tenant searches, judges, tags, names a topic and has a run; its ids."""

    def theirs(method: str, path: str, **options: Any) -> dict[str, Any]:
        answer = home.ask(method, path, OTHER, **options)
        assert answer.is_success, f"{path}: {answer.text}"
        return answer.json()

    found = theirs("POST", "/v1/search", json={"query": WORDS, "topic": f"{OTHER} topic"})
    hits = [hit["image_id"] for hit in found["hits"]]
    assert len(hits) == 6
    plain = theirs("POST", "/v1/search", json={"query": WORDS})
    for query in (found, plain):
        said = {"query_id": query["query_id"], "relevant": hits[:1], "irrelevant": hits[-1:]}
        theirs("POST", "/v1/feedback", json=said)
    tags = theirs("POST", "/v1/tags", json={"image_ids": hits[:2], "text": f"{OTHER} boats"})
    directory = (theirs("GET", "/v1/directories"))["directories"][0]
    runs = (theirs("GET", "/v1/runs"))["runs"]
    everyone = (home.ask("GET", "/v1/keys", "admin")).json()["keys"]
    guide = plain["guides"][0]["guide_id"] if plain["guides"] else "exemplar/0"
    ids = {
        "image_id": hits[0],
        "query_id": plain["query_id"],
        "guide_id": guide,
        "tag_id": tags["tags"][0]["tag_id"],
        "directory_id": directory["directory_id"],
        "run_id": runs[0]["run_id"],
        "job_id": UNKNOWN,
        "name": OTHER,
        "path": str(Path(home.tenants.settings.home).parent / f"{OTHER}-pictures"),
        "key_id": next(key["key_id"] for key in everyone if key["name"] == OTHER),
        "model_id": "bridge",
    }
    marks = {OTHER, *hits, found["query_id"], plain["query_id"], directory["directory_id"], ids["key_id"]}
    marks |= {run["run_id"] for run in runs} | {tag["tag_id"] for tag in tags["tags"]}
    return Known(ids, marks)


def _filled(value: Any, ids: dict[str, str]) -> Any:
    """`value` with ids in the place of `{name}`."""
    if isinstance(value, str):
        for name, found in ids.items():
            value = value.replace("{" + name + "}", found)
        return value
    if isinstance(value, dict):
        return {key: _filled(inner, ids) for key, inner in value.items()}
    return [_filled(inner, ids) for inner in value] if isinstance(value, list) else value


def _requests(method: str, path: str, operation: dict[str, Any]) -> list[dict[str, Any]]:
    """The requests that are tried on an operation: arguments of httpx, with `{…}` for ids."""
    if "requestBody" not in operation:
        return [{}, *({"params": one} for one in PARAMETERS.get(path, []))]
    if path in PICTURE_ROUTES:
        named = json.dumps({"filters": {"corpora": ["{name}"]}})
        picture = {"image": ("a.png", _png(), "image/png")}
        return [{"files": picture}, {"files": picture, "data": {"options": named}}]
    assert (method, path) in BODIES, f"say what is to be sent to {method.upper()} {path}, and that it shows nothing of others"
    body = BODIES[method, path]
    named = {**body, "filters": {"corpora": ["{name}"]}}
    bodies = [body, named] if path.startswith("/v1/search") and path != "/v1/search/url" else [body]
    if path == "/v1/search/batch":
        return [
            {"content": json.dumps(one).encode() + b"\n", "headers": {"Content-Type": "application/x-ndjson"}} for one in bodies
        ]
    return [{"json": one} for one in bodies]


def _png() -> bytes:
    import io

    from PIL import Image

    target = io.BytesIO()
    Image.new("RGB", (64, 64), (200, 30, 30)).save(target, "PNG")
    return target.getvalue()


def test_no_route_shows_anything_of_another_corpus_nor_that_it_is_there(home: Home) -> None:
    document = (home.http.get("/openapi.json")).json()
    other = home.other
    strangers = {**dict.fromkeys(other.ids, UNKNOWN), "name": "nowhere", "path": other.ids["path"].replace(OTHER, "nowhere")}
    strangers |= {"guide_id": other.ids["guide_id"], "model_id": "bridge", "key_id": "0" * 16}
    walked = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for request in _requests(method, path, operation):
                url, arguments = _filled(path, other.ids), _filled(_encoded(request), other.ids)
                answer = home.ask(method, url, **_decoded(arguments))
                told = answer.text
                assert answer.status_code < 500 or path == "/v1/images/generations", f"{method} {url}: {told}"
                sent = url + json.dumps(arguments)
                shown = {mark for mark in other.all if mark in told and mark not in sent}
                assert not shown, f"{method} {url} {arguments} shows {shown}: {told[:600]}"
                if path in FORBIDDEN:
                    assert answer.status_code == 403, f"{method} {url}: {told}"
                elif NAMED.search(path + json.dumps(_encoded(request))) and path not in WITHOUT_TENANTS:
                    same = home.ask(method, _filled(path, strangers), **_decoded(_filled(_encoded(request), strangers)))
                    assert (answer.status_code, _bare(told, other.ids)) == (same.status_code, _bare(same.text, strangers)), (
                        f"{method} {path} tells what is there from what is not"
                    )
                walked += 1
    assert walked > len(document["paths"])
    theirs = home.ask("GET", "/v1/directories", OTHER)
    assert theirs.json()["directories"][0]["enabled"], "somebody else has switched it off"
    assert (home.ask("GET", f"/v1/images/{other.ids['image_id']}/content", OTHER)).status_code == 200
    assert (home.ask("GET", f"/v1/tags?image_id={other.ids['image_id']}", OTHER)).json()["tags"]


def _encoded(request: dict[str, Any]) -> dict[str, Any]:
    """Bytes as text, so that ids can be filled in and the request can be printed."""
    return {key: value.decode() if key == "content" else value for key, value in request.items() if key != "files"} | (
        {"files": True} if "files" in request else {}
    )


def _decoded(request: dict[str, Any]) -> dict[str, Any]:
    files = {"files": {"image": ("a.png", _png(), "image/png")}} if request.get("files") else {}
    return {**request, **files}


def _bare(text: str, ids: dict[str, str]) -> str:
    """An answer without what was sent, and without what differs between any two answers."""
    for name in sorted(ids, key=lambda one: -len(ids[one])):
        text = text.replace(ids[name], "<sent>")
    try:
        document = json.loads(text)
    except ValueError:
        return text
    for volatile in ("query_id", "timings_ms", "retry_after"):
        if isinstance(document, dict):
            document.pop(volatile, None)
    return json.dumps(document, sort_keys=True)


def test_the_walk_would_see_what_leaks(home: Home) -> None:
    """The same marks are shown to their owner: the walk above looks for what is really there."""
    for path in ("/v1/corpora", "/v1/directories", "/v1/queries", "/v1/tags", "/v1/runs", f"/v1/images?corpus={OTHER}"):
        assert OTHER in (home.ask("GET", path, OTHER)).text, path
    explained = (home.ask("GET", f"/v1/queries/{home.other.ids['query_id']}", OTHER)).json()
    assert explained["text"] == WORDS
    assert any(OTHER in json.dumps(guide) for guide in explained["guides"])
    everything = (home.ask("GET", "/v1/trust", "admin")).text
    assert WORDS in everything
    assert f"{OTHER} topic" in everything


def test_searches_rank_and_imagine_within_the_corpora_of_a_key(home: Home) -> None:
    for body in ({"query": ALIKE}, {"query": ALIKE, "filters": {"corpora": [OWN]}}):
        found = (home.ask("POST", "/v1/search", json=body)).json()
        assert {hit["corpus"] for hit in found["hits"]} == {OWN}
        assert len(found["hits"]) == 6
        assert OTHER not in json.dumps(found["guides"])
    everywhere = (home.ask("POST", "/v1/search", "everywhere", json={"query": ALIKE, "limit": 50})).json()
    assert {hit["corpus"] for hit in everywhere["hits"]} == {OWN, OTHER}
    refused = home.ask("POST", "/v1/search", json={"query": ALIKE, "filters": {"corpora": [OWN, OTHER]}})
    assert (refused.status_code, refused.json()["code"], refused.json()["known"]) == (404, "unknown_name", [OWN])
    own = found["hits"][0]["image_id"]
    like = (home.ask("GET", f"/v1/images/{own}/similar")).json()
    assert {hit["corpus"] for hit in like["hits"]} == {OWN}


def test_a_key_of_corpora_that_are_not_there_finds_nothing(home: Home) -> None:
    made = home.ask("POST", "/v1/keys", "admin", json={"name": "early", "corpora": ["to-come"], "allow_unknown_corpora": True})
    assert made.status_code == 201, made.text
    headers = {"X-API-Key": made.json()["secret"]}
    found = home.http.post("/v1/search", json={"query": WORDS}, headers=headers)
    assert found.status_code == 200, found.text
    assert found.json()["hits"] == []
    assert (home.http.get("/v1/status", headers=headers)).json()["images"] == 0


def test_queries_belong_to_whoever_asked_even_where_all_corpora_are_seen(home: Home) -> None:
    mine = (home.ask("POST", "/v1/search", "everywhere", json={"query": "a red boat"})).json()["query_id"]
    listed = (home.ask("GET", "/v1/queries", "everywhere")).json()["queries"]
    theirs = home.other.ids["query_id"]
    assert mine in {one["query_id"] for one in listed}
    assert theirs not in {one["query_id"] for one in listed}
    assert (home.ask("GET", f"/v1/queries/{theirs}", "everywhere")).status_code == 404
    assert (home.ask("GET", f"/v1/queries/{mine}", OTHER)).status_code == 404
    by_admin = (home.ask("GET", "/v1/queries", "admin")).json()["queries"]
    assert {mine, theirs} <= {one["query_id"] for one in by_admin}


def test_counts_are_those_of_the_corpora_that_are_seen(home: Home) -> None:
    assert (home.ask("GET", "/v1/status")).json()["images"] == 6
    assert (home.ask("GET", "/v1/status", "admin")).json()["images"] == 12
    assert (home.http.get("/readyz")).json()["images"] == 0
    assert [one["name"] for one in (home.ask("GET", "/v1/corpora")).json()["corpora"]] == [OWN]


def test_folders_are_indexed_only_where_the_settings_let_a_key(home: Home, tmp_path: Path) -> None:
    below = Path(home.tenants.settings.home).parent / f"{OWN}-pictures"
    (below / "link").unlink(missing_ok=True)
    (below / "link").symlink_to(home.other.ids["path"])
    for path in ("/etc", str(tmp_path), str(below / ".." / f"{OTHER}-pictures"), str(below / "link"), "~", "relative"):
        refused = home.ask("POST", "/v1/directories", json={"path": path, "corpus": OWN, "index": False})
        assert refused.status_code == 403, f"{path}: {refused.text}"
        everywhere = home.ask("POST", "/v1/directories", "everywhere", json={"path": path, "index": False})
        assert everywhere.status_code == 403, path
    (below / "link").unlink()
    known = home.ask("POST", "/v1/directories", json={"path": str(below), "corpus": OWN, "index": False})
    assert known.status_code == 201, known.text
    added = home.ask("POST", "/v1/directories", "admin", json={"path": str(tmp_path), "corpus": "new", "index": False})
    assert added.status_code == 201, added.text
    removed = home.ask("DELETE", f"/v1/directories/{added.json()['directory']['directory_id']}", "admin")
    assert removed.status_code == 204, removed.text
