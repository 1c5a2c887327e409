"""The service tells the page what the caller may do and where files are, and it takes judgements back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.homes import home_settings, index
from tests.support.search_page import captioned_pictures
from tests.support.served import TOKEN, Served, served_here

from lodestone.access.keys import ApiKey
from lodestone.config.compositions import CompositionSettings
from lodestone.config.serve import AuthSettings, ServeSettings
from lodestone.config.settings import Settings
from lodestone.home.runtime import Runtime
from lodestone.services.composed_queries import EVEN, USUAL
from lodestone_schemas.access import KeyRequest, Scope

WORDS = "a cat looks at the camera"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("service")
    captioned_pictures(folder / "pictures", drawn=4)
    (folder / "pictures" / "new\nline.png").write_bytes((folder / "pictures" / "drawn" / "000001.jpg").read_bytes())
    made = home_settings(folder / "home", serve={"upkeep": False})
    index(made, folder / "pictures")
    return made.model_copy(
        update={"compositions": {"shoes": CompositionSettings(weights={"bridge-picture": 1, "bridge-words": 1})}}
    )


@pytest.fixture
def others(settings: Settings, tmp_path: Path) -> Settings:
    """Settings of the same home once more: two services cannot own one."""
    home = shutil.copytree(settings.home, tmp_path / "home", ignore=shutil.ignore_patterns("service.json", "*.lock"))
    return settings.model_copy(update={"home": home})


@pytest.fixture(scope="module")
def site(settings: Settings) -> Iterator[Served]:
    with served_here(settings) as served:
        yield served


@pytest.fixture
def http(site: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.address.url, timeout=60) as client:
        yield client


def images(http: httpx.Client) -> list[dict[str, Any]]:
    corpus = http.get("/v1/corpora").json()["corpora"][0]["name"]
    return list(http.get("/v1/images", params={"corpus": corpus, "limit": 200}).json()["images"])


def test_a_service_without_keys_tells_what_may_be_done_and_chosen(http: httpx.Client) -> None:
    assert http.get("/v1/access").json() == {
        "scopes": ["search", "feedback"],
        "paths": True,
        "compositions": ["default", "shoes"],
        "weights": {"default": USUAL, "shoes": EVEN},
    }
    local = http.get("/v1/access", headers={"X-Lodestone-Token": TOKEN}).json()
    assert local["scopes"] == ["search", "feedback", "index", "admin"]


def test_on_the_service_s_machine_absolute_paths_are_told(http: httpx.Client, settings: Settings) -> None:
    found = images(http)
    unknown = "00000000-0000-5000-8000-000000000000"
    answer = http.post("/v1/images/paths", json={"image_ids": [*(image["image_id"] for image in found), unknown]})
    folder = Path(settings.home).parent / "pictures"
    assert answer.json()["paths"] == {image["image_id"]: str(folder / image["uri"]) for image in found}
    assert all(Path(path).is_file() for path in answer.json()["paths"].values())
    assert any("\n" in path for path in answer.json()["paths"].values())


@pytest.mark.parametrize(
    "headers",
    [{"X-Forwarded-For": "203.0.113.9"}, {"Forwarded": "for=203.0.113.9"}, {"Via": "1.1 proxy"}],
    ids=["x-forwarded-for", "forwarded", "via"],
)
def test_paths_are_not_told_through_a_proxy(http: httpx.Client, headers: dict[str, str]) -> None:
    image = images(http)[0]["image_id"]
    refused = http.post("/v1/images/paths", json={"image_ids": [image]}, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert http.get("/v1/access", headers=headers).json()["paths"] is False


@pytest.mark.parametrize("change", [{"public_hosts": ["photos.example.org"]}, {"auth": AuthSettings(keys=True)}])
def test_paths_are_not_told_by_a_service_that_others_may_reach(others: Settings, change: dict[str, Any]) -> None:
    with Runtime.open(others) as runtime:
        key, secret = ApiKey.new(KeyRequest(name="all", scopes=[Scope.ADMIN], corpora=None))
        runtime.catalog.add_key(key)
    closed = others.model_copy(update={"serve": ServeSettings(upkeep=False, **change)})
    headers = {"Authorization": f"Bearer {secret}"} if "auth" in change else {}
    with served_here(closed) as served, httpx.Client(base_url=served.address.url, headers=headers, timeout=60) as http:
        told = http.get("/v1/access").json()
        assert told["paths"] is False
        assert ("admin" in told["scopes"]) is ("auth" in change)
        assert http.post("/v1/images/paths", json={"image_ids": [images(http)[0]["image_id"]]}).status_code == 403
        if "auth" in change:
            assert http.get("/v1/access", headers={"Authorization": "Bearer lodestone_0_0"}).status_code == 401


def test_feedback_that_is_taken_back_leaves_neither_trust_nor_tags(http: httpx.Client) -> None:
    answer = http.post("/v1/search", json={"query": WORDS, "limit": 5}).json()
    image = answer["hits"][1]["image_id"]
    tags = {"image_id": image, "source": "feedback"}
    before = http.get("/v1/trust").json()
    body = {"query_id": answer["query_id"], "relevant": [image]}
    first = http.post("/v1/feedback", json=body).json()
    assert first["applied"]
    assert first["after"] != first["before"]
    assert [tag["text"] for tag in http.get("/v1/tags", params=tags).json()["tags"]] == [WORDS]
    other = http.post("/v1/feedback/withdraw", json={"query_id": answer["query_id"], "irrelevant": [image]}).json()
    assert other["applied"] is False, "this was never said"
    assert len(http.get("/v1/tags", params=tags).json()["tags"]) == 1
    back = http.post("/v1/feedback/withdraw", json=body).json()
    assert (back["applied"], back["query_id"]) == (True, answer["query_id"])
    assert http.get("/v1/trust").json() == before
    assert http.get("/v1/tags", params=tags).json()["tags"] == []
    assert http.post("/v1/feedback/withdraw", json=body).json()["applied"] is False, "it does not count any more"
    again = http.post("/v1/feedback", json=body).json()
    assert (again["applied"], again["after"]) == (True, first["after"]), "and may be said again"


def test_feedback_on_a_query_that_nobody_asked_cannot_be_taken_back(http: httpx.Client) -> None:
    body = {"query_id": "00000000-0000-4000-8000-000000000000", "relevant": ["x"]}
    assert http.post("/v1/feedback/withdraw", json=body).status_code == 404


def test_feedback_of_somebody_else_cannot_be_taken_back(others: Settings) -> None:
    with Runtime.open(others) as runtime:
        secrets = []
        for name in ("one", "other"):
            key, secret = ApiKey.new(KeyRequest(name=name, scopes=[Scope.SEARCH, Scope.FEEDBACK], corpora=None))
            runtime.catalog.add_key(key)
            secrets.append(secret)
    keyed = others.model_copy(update={"serve": ServeSettings(upkeep=False, auth=AuthSettings(keys=True))})
    with served_here(keyed) as served:
        one, other = (
            httpx.Client(base_url=served.address.url, headers={"X-API-Key": secret}, timeout=60) for secret in secrets
        )
        answer = one.post("/v1/search", json={"query": "a rocket at night", "limit": 5}).json()
        body = {"query_id": answer["query_id"], "relevant": [answer["hits"][1]["image_id"]]}
        assert one.post("/v1/feedback", json=body).json()["applied"]
        refused = other.post("/v1/feedback/withdraw", json=body)
        assert refused.status_code == 404
        assert refused.json()["detail"] == other.post("/v1/feedback", json=body).json()["detail"], "as of one that is not there"
        assert one.post("/v1/feedback/withdraw", json=body).json()["applied"]
        one.close()
        other.close()
