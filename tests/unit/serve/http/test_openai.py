"""Clients of OpenAI's API find their shapes: models, embeddings, drawings, and errors as they read them."""

from __future__ import annotations

import base64
import io
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image
from tests.support.fake_services import FakeServices

from lodestone.config.settings import ServeSettings
from lodestone.errors import ModelUnavailableError
from lodestone_schemas.openai import DrawingRequest
from lodestone_serve.http.application import create_app

PICTURE = b"\x89PNG picture"
DATA_URL = f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"


@pytest.fixture
def services(tmp_path: Path) -> FakeServices:
    return FakeServices(tmp_path)


@pytest.fixture
async def http(services: FakeServices) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(services, settings=ServeSettings(max_upload_mb=1), token="a-secret")  # type: ignore[arg-type]
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7860") as client:
        yield client


async def test_models_are_listed_and_found_by_id(http: httpx.AsyncClient) -> None:
    listed = (await http.get("/v1/models")).json()
    assert listed["object"] == "list"
    assert {"id", "object", "created", "owned_by"} <= listed["data"][0].keys()
    assert (await http.get("/v1/models/generator/words")).json()["kind"] == "generator"
    missing = await http.get("/v1/models/gpt")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "unknown_name"


async def test_one_text_or_several_become_vectors_in_their_order(http: httpx.AsyncClient, services: FakeServices) -> None:
    one = (await http.post("/v1/embeddings", json={"model": "words", "input": "a boat"})).json()
    assert one["data"] == [{"object": "embedding", "index": 0, "embedding": [1.0, 0.0, 0.0, 0.0]}]
    assert one["usage"] == {"prompt_tokens": 2, "total_tokens": 2}
    several = (await http.post("/v1/embeddings", json={"model": "words", "input": ["a", "b"], "dimensions": 4})).json()
    assert [row["embedding"].index(1.0) for row in several["data"]] == [0, 1]
    assert services.asked == [("words", ["a boat"]), ("words", ["a", "b"])]


async def test_base64_is_little_endian_float32(http: httpx.AsyncClient) -> None:
    body = {"model": "words", "input": ["a", "b"], "encoding_format": "base64"}
    found = (await http.post("/v1/embeddings", json=body)).json()["data"][1]["embedding"]
    assert np.frombuffer(base64.b64decode(found), "<f4").tolist() == [0.0, 1.0, 0.0, 0.0]


async def test_pictures_come_as_data_urls_larger_than_other_bodies(http: httpx.AsyncClient, services: FakeServices) -> None:
    large = PICTURE + b"0" * 200_000
    url = f"data:image/jpeg;base64,{base64.b64encode(large).decode()}"
    answer = await http.post("/v1/embeddings", json={"model": "eyes", "input": [DATA_URL, url]})
    assert answer.status_code == 200, answer.text
    assert services.asked == [("eyes", [PICTURE, large])]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"model": "words", "input": []}, "input"),
        ({"model": "words", "input": ""}, "input"),
        ({"model": "words", "input": ["a", "  "]}, "input.1"),
        ({"model": "words", "input": ["a"] * 257}, "input"),
        ({"model": "words", "input": "x" * 8_001}, "8001 characters"),
        ({"model": "words", "input": [1, 2, 3]}, "input"),
        ({"model": "words", "input": "data:image/png;base64,###"}, "not base64"),
        ({"model": "words", "input": [DATA_URL] * 33}, "33 pictures"),
        ({"model": "words", "input": "a", "dimensions": 3}, "4 numbers, not 3"),
        ({"model": "words", "input": "a", "encoding_format": "hex"}, "encoding_format"),
        ({"model": "words", "input": "a", "surprise": 1}, "surprise"),
        ({"input": "a"}, "model"),
    ],
)
async def test_what_cannot_be_embedded_is_named_for_both_kinds_of_clients(
    http: httpx.AsyncClient, body: dict[str, object], said: str
) -> None:
    answer = await http.post("/v1/embeddings", json=body)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "invalid_request"), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert said in problem["detail"]
    assert said in problem["error"]["message"]
    assert problem["error"]["type"] == "invalid_request_error"
    assert all("[" not in error["field"] and "constrained" not in error["field"] for error in problem.get("errors", []))


async def test_pictures_are_drawn_and_sent_as_files(http: httpx.AsyncClient, services: FakeServices) -> None:
    body = {"prompt": "a red bicycle", "n": 2, "output_format": "webp", "seed": 5, "user": "somebody"}
    drawn = (await http.post("/v1/images/generations", json=body)).json()
    pictures = [Image.open(io.BytesIO(base64.b64decode(one["b64_json"]))) for one in drawn["data"]]
    assert [(one.format, one.size) for one in pictures] == [("WEBP", (48, 32))] * 2
    assert (drawn["model"], drawn["cost"], drawn["warnings"], drawn["size"]) == ("brush", 0.5, ["slow today"], "48x32")
    assert services.asked == [DrawingRequest(**body)]


@pytest.mark.parametrize("body", [{}, {"prompt": ""}, {"prompt": "a", "n": 11}, {"prompt": "a", "size": "huge"},
                                  {"prompt": "a", "response_format": "url"}])  # fmt: skip
async def test_what_cannot_be_drawn_is_refused(http: httpx.AsyncClient, body: dict[str, object]) -> None:
    answer = await http.post("/v1/images/generations", json=body)
    assert answer.status_code == 422
    assert answer.json()["error"]["param"]


async def test_refusals_before_and_failures_behind_the_route_speak_to_openais_clients_too(
    http: httpx.AsyncClient, services: FakeServices
) -> None:
    unread = await http.post("/v1/embeddings", content=b"a", headers={"Content-Type": "text/plain"})
    assert (unread.status_code, unread.json()["error"]["code"]) == (415, "unsupported_media_type")
    services.fail = ModelUnavailableError("no weights", hint="install them")
    failed = await http.post("/v1/images/generations", json={"prompt": "a"})
    assert failed.json()["error"] == {
        "message": "no weights (install them)", "type": "server_error", "param": None, "code": "model_unavailable",
    }  # fmt: skip
    services.fail = ValueError("s3cret")
    defect = await http.post("/v1/embeddings", json={"model": "words", "input": "a"})
    assert (defect.status_code, defect.json()["error"]["type"]) == (500, "server_error")
    assert "s3cret" not in defect.text
    remote_stages = await http.get("/v1/nothing")
    assert "error" not in remote_stages.json()
