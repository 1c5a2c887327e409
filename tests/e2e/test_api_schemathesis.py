"""Whatever a client sends gets a documented status and an answer of the documented shape, and never a defect.

Schemathesis makes requests from the OpenAPI document, such as it allows and such as it does not, and sends them over HTTP to a
service of a small home: as anybody, and as the holder of the home's token. `LODESTONE_API_EXAMPLES` says how many an operation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from tests.support.home import image_ids, settings_for
from tests.support.pictures import jpeg_bytes, write_photos
from tests.support.served import TOKEN, served_here

from lodestone.config.settings import Settings
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest

EXAMPLES = int(os.environ.get("LODESTONE_API_EXAMPLES", "4"))
# Equal to what the service says of itself (test_application.py). Making it would cost every process that collects some seconds.
DOCUMENT: dict[str, Any] = json.loads((Path(__file__).parents[2] / "schemas" / "openapi.json").read_text("utf-8"))
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = sorted((path, method) for path, methods in DOCUMENT["paths"].items() for method in methods)
# What the HTTP server says by itself to a request that it cannot read, such as one with a line of more than 64 kB.
UNREADABLE = b"Invalid HTTP request received."
load_all_checks()
CHECKED = [
    CHECKS.get_one(name)
    for name in (
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
    )
]


@schemathesis.serializer("application/x-ndjson")
def lines(_: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")


@dataclass(frozen=True)
class Site:
    """Where the service is, and what is known there."""

    url: str
    folder: Path
    image_id: str
    query_id: str
    directory_id: str
    run_id: str


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("schemathesis")
    write_photos(folder / "pictures", 8)
    write_photos(folder / "more", 1)
    settings: Settings = settings_for(folder)
    with Runtime.open(settings) as runtime:
        index_paths(runtime, IndexRequest((folder / "pictures",), corpus="photos"))
        image_id = next(iter(image_ids(runtime, "photos").values()))
        run_id = runtime.catalog.runs()[0].run_id
        directory_id = runtime.catalog.roots()[0].root_id
    with served_here(settings) as served:
        asked = requests.post(f"{served.address.url}/v1/search", json={"query": "dots", "guides": 0}, timeout=60)
        yield Site(served.address.url, folder, image_id, asked.json()["query_id"], directory_id, run_id)


def known_instead(case: Any, site: Site, draw: st.DataObject) -> None:
    """Half of the ids that a case names become ids that there are: else everything behind them would be unknown."""
    known = {
        "image_id": site.image_id,
        "query_id": site.query_id,
        "directory_id": site.directory_id,
        "run_id": site.run_id,
        "corpus": "photos",
    }
    # Removing the only corpus, or its directory, would leave nothing to ask for.
    parameters = case.path_parameters if case.method != "DELETE" else None
    for place in (parameters, case.query, case.body):
        for name in known.keys() & (place.keys() if isinstance(place, dict) else set()):
            if draw.draw(st.booleans(), label=f"known {name}"):
                place[name] = known[name]


def kept_inside(case: Any, site: Site) -> None:
    """Requests may name any folder of this machine, and have it indexed: only the test's own, and not now."""
    if case.path == "/v1/directories" and isinstance(case.body, dict):
        if isinstance(case.body.get("path"), str):
            case.body["path"] = str(site.folder / "more")
        if case.body.get("index", True) is True:
            case.body["index"] = False
    if isinstance(case.body, dict) and isinstance(case.body.get("deadline_ms"), int | float):
        case.body["deadline_ms"] = max(case.body["deadline_ms"], 60_000)
    if isinstance(case.query, dict):
        case.query.pop("deadline_ms", None)  # one that is too short ends with 504, as it should


def test_a_picture_and_its_options_are_taken(site: Site) -> None:  # before anything is switched off
    answer = requests.post(
        f"{site.url}/v1/search/image", files={"image": ("a.jpg", jpeg_bytes())}, data={"options": '{"limit": 2}'}, timeout=60
    )
    assert answer.status_code == 200
    assert len(answer.json()["hits"]) == 2


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_answer_is_a_documented_one(site: Site, path: str, method: str) -> None:
    operation = SCHEMA[path][method.upper()]

    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    )
    @hypothesis.given(data=st.data(), trusted=st.booleans(), mode=st.sampled_from(list(GenerationMode)))
    def ask(data: st.DataObject, trusted: bool, mode: GenerationMode) -> None:
        case = data.draw(operation.as_strategy(generation_mode=mode))
        known_instead(case, site, data)
        kept_inside(case, site)
        headers = {"X-Lodestone-Token": TOKEN} if trusted else {}
        response = case.call(base_url=site.url, headers=headers, timeout=120)
        if (response.status_code, response.content) == (400, UNREADABLE):
            return
        # What was asked before may have begun to index: then the corpus is taken for a while, and the answer says so.
        taken = method != "get" and response.status_code == 503 and response.json()["code"] == "store_locked"
        assert response.status_code < 500 or taken, (response.status_code, response.content, case.as_curl_command())
        case.validate_response(response, checks=CHECKED)

    ask()


@pytest.mark.parametrize(
    ("path", "statuses"), [("/v1/images/{image_id}", ("404",)), ("/v1/models", ("200",)), ("/v1/models/{model_id}", ("404",))]
)
def test_an_answer_that_the_document_does_not_have_is_noticed(site: Site, path: str, statuses: tuple[str, ...]) -> None:
    poorer = json.loads(json.dumps(DOCUMENT))
    for status in statuses:
        poorer["paths"][path]["get"]["responses"].pop(status)
    operation = schemathesis.openapi.from_dict(poorer)[path]["GET"]
    unknown = {"image_id": "00000000-0000-4000-8000-000000000000", "model_id": "nobody's"}
    case = operation.Case(path_parameters={name: value for name, value in unknown.items() if f"{{{name}}}" in path})
    response = case.call(base_url=site.url, timeout=60)
    with pytest.raises(schemathesis.core.failures.FailureGroup):
        case.validate_response(response, checks=CHECKED)
