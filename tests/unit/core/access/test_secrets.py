"""Keys, tokens and passwords stay out of what is written down and sent back."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import structlog
from tests.support.fake_services import FakeServices

from lodestone.access.keys import ApiKey, digest_of, key_id_of
from lodestone.catalog.catalog import Catalog
from lodestone.config.serve import AuthSettings, ServeSettings
from lodestone.errors import CatalogError, SourceError
from lodestone_schemas.access import KeyRequest
from lodestone_schemas.redaction import hide_secrets, redacted, without_secrets
from lodestone_serve.http.application import create_app
from lodestone_serve.telemetry.logs import LOG_NAME, log_to

KEY = f"lodestone_{'ab12' * 4}_{'S3cret-_' * 5}abc"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZGEiLCJzZWNyZXQiOjF9.c2lnbmF0dXJl-_c2ln"
SECRETS = [
    (KEY, KEY[-30:]),
    (f"Authorization: Bearer {KEY}", KEY[-30:]),
    (f"Bearer {JWT}", JWT.split(".")[1]),
    (f"the token {JWT} is bad", JWT.split(".")[2]),
    ("Authorization: Basic bG9kZXN0b25lOmh1bnRlcjI=", "bG9kZXN0b25lOmh1bnRlcjI="),
    ("postgresql+psycopg://user:hunter2@db.example:5432/lodestone", "hunter2"),
    ("could not connect: host=db password=hunter2 user=a", "hunter2"),
    ("s3://bucket/a?X-Amz-Signature=hunter2hunter2&X-Amz-Date=1", "hunter2"),
    ("https://x.example/a?X-Amz-Credential=hunter2%2F2026&b=1", "hunter2"),
    ("https://x.blob.example/a?sv=1&sig=hunter2%3D&se=1", "hunter2"),
    ("https://bucket.example/?AWSAccessKeyId=hunter2&Expires=1", "hunter2"),
    ("aws_secret_access_key = hunter2/K7MDENG", "hunter2"),
    ("key AKIAIOSFODNN7EXAMPLE was refused", "FODNN7EXAMPLE"),
    ("redis://:hunter2@cache:6379/0", "hunter2"),
    ('{"api_key": "hunter2hunter2"}', "hunter2"),
    ("X-API-Key: hunter2hunter2", "hunter2"),
    ("access_token=hunter2; Path=/", "hunter2"),
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_what_looks_like_a_secret_is_taken_out(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in redacted(text)
    assert "***" in redacted(text)
    assert secret not in json.dumps(without_secrets({"a": [{"b": (text,)}], "c": text.encode()}))


@pytest.mark.parametrize(
    "text",
    [
        "the query 'two dogs on a beach' was not recorded",
        "send it as `Authorization: Bearer …`",
        "lodestone_<id>_<secret>",
        "https://example.org:8080/a/b?page=2&size=10",
        "no indexed picture has the id '5f0f7a52-6f62-5b1f-9d3e-0a4f6d1c2b3a'",
        "12:30:45 the token expired at 12:30",
        "a key looks like that",
    ],
)
def test_what_is_none_stays(text: str) -> None:
    assert redacted(text) == text


def test_values_under_the_names_of_secrets_are_hidden_whole() -> None:
    event = hide_secrets(
        None, "info", {"authorization": "x", "headers": {"X-API-Key": "y", "Cookie": "z"}, "token": "t", "tokens": 3, "n": 1}
    )
    assert event == {
        "authorization": "***", "headers": {"X-API-Key": "***", "Cookie": "***"}, "token": "***", "tokens": 3, "n": 1,
    }  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    before = structlog.get_config()
    logger = logging.getLogger("lodestone")
    handlers, propagate, level = logger.handlers, logger.propagate, logger.level
    log_to(tmp_path / "logs", "debug")
    yield tmp_path / "logs" / LOG_NAME
    for handler in logger.handlers:
        handler.close()
    logger.handlers, logger.propagate = handlers, propagate
    logger.setLevel(level)
    structlog.configure(**before)


async def test_neither_log_nor_answers_hold_what_was_sent_or_what_errors_quote(tmp_path: Path, log: Path) -> None:
    class Services(FakeServices):
        def key_store(self) -> Catalog:
            return catalog

    services = Services(tmp_path)
    catalog = Catalog.open(tmp_path / "catalog.sqlite")
    key, written = ApiKey.new(KeyRequest(name="app"))
    catalog.add_key(key)
    app = create_app(services, settings=ServeSettings(auth=AuthSettings(keys=True)), token="the-local-token-of-the-home")
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    told = []
    failures = [
        CatalogError("the catalog failed: postgresql://u:hunter2@db/x", hint="see postgresql://u:hunter2@db/x"),
        SourceError("s3 said no: X-Amz-Signature=hunter2hunter2", url="https://u:hunter2@s3.example/a"),
        ValueError(f"unexpected: password=hunter2 and {written} and {JWT}"),
    ]
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        for failure in failures:
            services.fail = failure
            told.append(await http.post("/v1/search", json={"query": "a"}, headers={"Authorization": f"Bearer {written}"}))
        headers = (
            {"X-API-Key": written[:-1]},
            {"Authorization": f"Bearer {JWT}"},
            {"X-Lodestone-Token": "the-local-token-of-th"},
        )
        told += [await http.get("/v1/status", headers=one) for one in headers]
        logging.getLogger("lodestone.elsewhere").warning("calling %s", "https://u:hunter2@x.example/a")
        structlog.get_logger("lodestone.serve").warning("asked", headers={"authorization": f"Bearer {written}"})
    catalog.close()
    assert [one.status_code for one in told] == [503, 502, 500, 401, 401, 401]
    everything = log.read_text() + "".join(one.text for one in told)
    assert "unexpected error" in everything
    for secret in ("hunter2", written.split("_", 2)[2][:20], JWT.split(".")[1], "the-local-token"):
        where = everything.find(secret)
        assert where < 0, f"{secret!r} is shown: {everything[max(0, where - 200) : where + 60]!r}"


def test_a_key_is_kept_as_a_digest_alone(tmp_path: Path) -> None:
    key, written = ApiKey.new(KeyRequest(name="app"))
    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        catalog.add_key(key)
        assert catalog.key(key.key_id) == key
    secret = written.split("_", 2)[2]
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert digest_of(written).encode() in kept
    assert secret.encode() not in kept
    assert secret not in repr(key)
    assert len(secret) == 43  # 256 bits
    assert key_id_of(written) == key.key_id
    assert len({ApiKey.new(KeyRequest(name="x"))[1] for _ in range(50)}) == 50
