"""Every text of every request is checked at the door, and no value is answered by a defect.

Every route of the OpenAPI document is asked, with each value of its body and each of its parameters replaced in turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.support.home import image_ids, settings_for
from tests.support.hostile_values import HALF_PAIR, HOSTILE, Messages, deep, leaves, renamed, replaced
from tests.support.pictures import jpeg_bytes, write_photos
from tests.support.served import TOKEN, served_here

from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone_serve.http.openapi import document

DOCUMENT: dict[str, Any] = json.loads(document())
OPERATIONS = sorted((path, method) for path, methods in DOCUMENT["paths"].items() for method in methods)
JSON_ROUTES = [
    (path, method)
    for path, method in OPERATIONS
    if "application/json" in DOCUMENT["paths"][path][method].get("requestBody", {}).get("content", {})
]
UNKNOWN = "00000000-0000-5000-8000-000000000000"
LOCAL = {"X-Lodestone-Token": TOKEN}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, Messages, dict[str, str]]]:
    folder = tmp_path_factory.mktemp("hostile")
    write_photos(folder / "pictures", 3)
    settings = settings_for(folder)
    with Runtime.open(settings) as runtime:
        index_paths(runtime, IndexRequest((folder / "pictures",), corpus="photos"))
        known = {"image_id": next(iter(image_ids(runtime, "photos").values()))}
    with served_here(settings) as served, httpx.Client(base_url=served.address.url, headers=LOCAL, timeout=120) as client:
        asked = client.post("/v1/search", json={"query": "dots", "guides": 0}).json()
        known["query_id"] = asked["query_id"]
        members = {**known, "path": str(folder / "nothing"), "index": False, "corpora": ["photos"], "pause_s": 0.0}
        yield client, Messages(DOCUMENT, members), known


def address(path: str, known: dict[str, str]) -> str:
    """Return a path whose parameters are known ones where nothing is removed."""
    for name in ("image_id", "query_id"):
        path = path.replace(f"{{{name}}}", known[name])
    for name in ("directory_id", "run_id", "job_id", "tag_id"):
        path = path.replace(f"{{{name}}}", UNKNOWN)
    return path.replace("{", "").replace("}", "")


def sent(client: httpx.Client, method: str, path: str, body: object) -> httpx.Response:
    content = json.dumps(body).encode()
    return client.request(method, path, content=content, headers={"Content-Type": "application/json"})


def schema_of(path: str, method: str) -> dict[str, Any]:
    schema: dict[str, Any] = DOCUMENT["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"]
    return schema


@pytest.mark.parametrize(("path", "method"), JSON_ROUTES)
def test_half_a_surrogate_pair_is_refused_wherever_it_stands(
    site: tuple[httpx.Client, Messages, dict[str, str]], path: str, method: str
) -> None:
    client, messages, known = site
    body = messages.full(schema_of(path, method))
    places = list(leaves(body))
    assert places
    for place in places:
        shapes = [replaced(body, place, HALF_PAIR), replaced(body, place, {"a": ["b", f"c{HALF_PAIR}d"]})]
        if isinstance(place[-1], str):
            shapes.append(renamed(body, place, f"x{HALF_PAIR}"))
        for shape in shapes:
            answer = sent(client, method, address(path, known), shape)
            assert answer.status_code == 422, (place, answer.text)
            problem = answer.json()
            assert problem["code"] == "invalid_request"
            assert "half a surrogate pair (U+D800)" in problem["detail"], place
            assert problem["errors"][0]["field"], place


def test_one_that_came_as_bytes_is_refused_too(site: tuple[httpx.Client, Messages, dict[str, str]]) -> None:
    headers = {"Content-Type": "application/json"}
    answer = site[0].post("/v1/search", content=b'{"query": "a \xed\xa0\x80"}', headers=headers)
    assert answer.status_code in {400, 422}
    whole = site[0].post("/v1/search", content=b'{"query": "\\ud83d\\ude00 dots", "guides": 0}', headers=headers)
    assert whole.status_code == 200  # both halves together are a character


def test_one_in_a_line_or_in_a_form_is_refused(site: tuple[httpx.Client, Messages, dict[str, str]]) -> None:
    client = site[0]
    lines = b'{"query": "dots", "guides": 0}\n{"query": "\\ud800"}\n{"query": "a", "filters": {"corpora": ["\\udfff"]}}\n'
    answers = client.post("/v1/search/batch", content=lines, headers={"Content-Type": "application/x-ndjson"}).text.splitlines()
    codes = {answer["line"]: (answer["problem"] or {}).get("code") for answer in map(json.loads, answers)}
    assert codes == {1: None, 2: "invalid_request", 3: "invalid_request"}
    for options in ('{"spaces": ["\\ud800"]}', '{"filters": {"corpora": ["\\ud800"]}}', '{"weights": {"\\ud800": 1}}'):
        answer = client.post("/v1/search/image", files={"image": ("a.jpg", jpeg_bytes())}, data={"options": options})
        assert answer.status_code == 422, answer.text


@pytest.mark.parametrize(("path", "method"), JSON_ROUTES)
def test_no_value_of_a_body_is_answered_by_a_defect(
    site: tuple[httpx.Client, Messages, dict[str, str]], path: str, method: str
) -> None:
    client, messages, known = site
    schema = schema_of(path, method)
    body, least = messages.full(schema), messages.least(schema)
    # One value inside each member of the message, and each member as a whole.
    places = {place[:2] if len(place) > 1 else place for place in leaves(body)} | {(name,) for name in body}
    for place in sorted(places, key=str):
        for what, value in HOSTILE.items():
            shape = {**least, place[0]: replaced(body, place, value)[place[0]]}
            answer = sent(client, method, address(path, known), shape)
            assert answer.status_code < 500 or answer.json()["code"] == "deadline_exceeded", (place, what, answer.text)
    for whole in (*HOSTILE.values(), [], deep(900)):
        assert sent(client, method, address(path, known), whole).status_code < 500


def test_no_nesting_is_answered_by_a_defect(site: tuple[httpx.Client, Messages, dict[str, str]]) -> None:
    for content in (b"[" * 60_000, b'{"a":' * 12_000, b'{"query": ' + b"[" * 30_000 + b"]" * 30_000 + b"}"):
        answer = site[0].post("/v1/search", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code in {400, 422}


PARAMETERS = ["%ED%A0%80", "%00", "a%00b", "x" * 8_000, "-1", "1e400", "NaN", "9" * 300, "%F0%9F%98%80", "[]", "null", ""]


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_no_parameter_is_answered_by_a_defect(
    site: tuple[httpx.Client, Messages, dict[str, str]], path: str, method: str
) -> None:
    client, messages, known = site
    operation = DOCUMENT["paths"][path][method]
    body = messages.least(schema_of(path, method)) if (path, method) in JSON_ROUTES else None
    for parameter in operation.get("parameters", []):
        for value in PARAMETERS:
            place, url = parameter["in"], address(path, known)
            if place == "path":
                url = address(path.replace(f"{{{parameter['name']}}}", value or "%20"), known)
            elif place == "query":
                url += f"?{parameter['name']}={value}" + ("&q=dots&guides=0" if path == "/v1/search" else "")
            else:
                continue
            answer = client.request(method, url, **({} if body is None else {"json": body}))
            assert answer.status_code < 500 or answer.json()["code"] == "deadline_exceeded", (url[:200], answer.text)
