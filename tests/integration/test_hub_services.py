"""Picture services over HTTP: each protocol as it is published, and what becomes of answers that are none."""

import asyncio
import base64
import io
import logging
import re
import time
from itertools import product

import httpx
import numpy as np
import pytest
from PIL import Image
from tests.support.engines import Recorder, drawn, hub_of, ids, remote
from tests.support.image_servers import GIGABYTE, ImageServer, drawing

from lodestone.errors import DeadlineExceededError, ModelUnavailableError
from lodestone.generators.base import GuideRequest, PictureEdit
from lodestone.generators.engines.http import unexpected
from lodestone.generators.trial import describe_engine, try_engine
from lodestone.query_notes import QueryNotes
from lodestone.remote.credentials import Credential
from lodestone.remote.http_client import Access, HttpClient
from lodestone.remote.http_fetch import is_public

KEY = "sk-very-secret-0123456789"
KINDS = {
    "http": {},
    "openai": {"model": "gpt-image-1", "options": {"send_seed": True}},
    "imagen": {"model": "imagen-4.0-fast-generate-001", "options": {"send_seed": True}},
    "replicate": {"model": "black-forest-labs/flux-schnell", "options": {"poll_s": 0.02}},
}


@pytest.fixture
def server():
    with ImageServer() as server:
        yield server


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("PICTURES_KEY", KEY)
    return KEY


async def one(engine, **rest):
    """Guides, and what was said of the failure."""
    log, hub = QueryNotes(), hub_of(engine)
    guides = await drawn(hub, n=rest.pop("n", 1), log=log, **rest)
    await hub.close()
    return guides, " ".join(log.warnings)


@pytest.mark.parametrize("kind", KINDS)
async def test_every_protocol_brings_the_pictures_that_were_drawn(server, kind):
    guides, _ = await one(remote("x", server.url, kind=kind, size=256, **KINDS[kind]), n=3)
    assert ids(guides) == ["x/0", "x/1", "x/2"]
    for guide in guides:
        number = int(guide.guide_id[-1])
        assert np.array_equal(guide.pixels, np.asarray(drawing("a cat", number, 256)))
        assert guide.provenance["received"] == [256, 256]
        assert guide.provenance["prompt"] == "a cat"


@pytest.mark.parametrize("kind", ["http", "openai", "replicate"])
async def test_pictures_may_come_as_addresses(server, kind):
    server.reply_with = "url"
    guides, warnings = await one(remote("x", server.url, kind=kind, **KINDS[kind]), n=2)
    assert len(guides) == 2 and warnings == ""
    assert sum(asked.path.startswith("/files/") for asked in server.asked) == 2


async def test_one_request_may_bring_several_pictures_and_numbers_stay(server):
    engine = remote("x", server.url, options={"pictures_a_call": 3})
    whole, _ = await one(engine, n=4)
    assert [asked.body["n"] for asked in server.drawn] in ([3, 1], [1, 3])
    singly, _ = await one(remote("x", server.url), request=GuideRequest("a cat", "a cat", 2, first=2))
    by_id = {guide.guide_id: guide.pixels for guide in whole}
    assert all(np.array_equal(guide.pixels, by_id[guide.guide_id]) for guide in singly)


async def test_what_openai_is_asked(server, key):
    await one(remote("x", f"{server.url}/v1", kind="openai", model="dall-e-2", key_env="PICTURES_KEY", size=256))
    (asked,) = server.asked
    assert asked.path == "/v1/images/generations" and asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {"prompt": "a cat", "n": 1, "size": "256x256", "model": "dall-e-2", "response_format": "b64_json"}


EDIT = PictureEdit(np.asarray(drawing("a dog", 3, 128, height=96)), 0.4)


def sent_picture(content):
    return np.asarray(Image.open(io.BytesIO(content)))


async def test_openai_is_sent_the_picture_to_edit_in_a_form(server, key):
    given = {"kind": "openai", "model": "gpt-image-1", "key_env": "PICTURES_KEY", "size": 64}
    asking = GuideRequest("a cat", "a cat", 1, edit=EDIT)
    editor = remote("x", f"{server.url}/v1", **given, options={"edits": True, "send_seed": True, "extra": {"quality": "low"}})
    (guide,), _ = await one(editor, request=asking)
    (asked,) = server.asked
    assert asked.path == "/v1/images/edits" and asked.headers["authorization"] == f"Bearer {KEY}"
    picture = asked.body.pop("image")
    assert asked.body == {
        "prompt": "a cat", "n": 1, "size": "64x64", "model": "gpt-image-1", "response_format": "b64_json", "seed": 0,
        "quality": "low",
    }  # fmt: skip
    assert sent_picture(picture).shape == (48, 64, 3)  # no larger than what comes back
    assert np.array_equal(guide.pixels, np.asarray(drawing("a cat", 0, 64)))
    address = f"{server.url}/openai/deployments/d/images/generations?api-version=2024-02-01"
    await one(remote("x", address, kind="openai", options={"edits": True}), request=asking)
    assert server.asked[-1].path.endswith("/d/images/edits?api-version=2024-02-01")


async def test_an_own_server_is_sent_the_picture_to_edit_and_the_strength(server):
    asking = GuideRequest("a cat", "a cat", 1, edit=EDIT)
    (guide,), _ = await one(remote("x", server.url, options={"edits": True}), request=asking)
    (asked,) = server.asked
    assert sent_picture(base64.b64decode(asked.body["image"])).shape == (48, 64, 3)
    assert asked.body["strength"] == guide.provenance["strength"] == 0.4
    await one(remote("x", server.url, options={"edits": True}))
    assert server.asked[-1].body.keys().isdisjoint({"image", "strength"})  # a picture that is drawn


@pytest.mark.parametrize("kind", KINDS)
async def test_an_engine_that_does_not_say_that_it_edits_is_sent_no_picture(server, kind):
    asking = GuideRequest("a cat", "a cat", 1, edit=EDIT)
    assert (await one(remote("x", server.url, kind=kind, **KINDS[kind]), request=asking))[0] == []
    assert server.asked == []


@pytest.mark.parametrize("mode", ["text_picture", "blank", "wrong_shape", "truncated", "declined", "error"])
async def test_an_edit_that_is_no_picture_is_a_failure_that_says_so(server, mode):
    server.mode = mode
    asking = GuideRequest("a cat", "a cat", 1, edit=EDIT)
    guides, warnings = await one(remote("x", server.url, options={"edits": True}), request=asking)
    assert guides == [] and "generator 'x' gave nothing" in warnings


async def test_an_edit_of_another_size_is_reduced(server):
    server.mode = "wrong_size"
    asking = GuideRequest("a cat", "a cat", 1, edit=EDIT)
    (guide,), _ = await one(remote("x", server.url, options={"edits": True}), request=asking)
    assert guide.pixels.shape == (32, 64, 3) and guide.provenance["received"] == [128, 64]


async def test_what_an_azure_deployment_is_asked(server, key):
    address = f"{server.url}/openai/deployments/d/images/generations?api-version=2024-02-01"
    options = {"header": "api-key", "scheme": "", "response_format": "none"}
    await one(remote("x", address, kind="openai", key_env="PICTURES_KEY", options=options))
    (asked,) = server.asked
    assert asked.path.endswith("/d/images/generations?api-version=2024-02-01")
    assert asked.headers["api-key"] == KEY and "authorization" not in asked.headers
    assert "response_format" not in asked.body


async def test_what_imagen_is_asked_with_a_key_and_with_a_token(server, key):
    await one(remote("x", server.url, kind="imagen", model="imagen-4", key_env="PICTURES_KEY"))
    path = "/v1/projects/p/locations/l/publishers/google/models/imagen-4:predict"
    options = {"auth": "token", "send_seed": True}
    await one(remote("x", server.url + path, kind="imagen", model="imagen-4", key_env="PICTURES_KEY", options=options))
    gemini, vertex = server.asked
    assert gemini.path == "/v1beta/models/imagen-4:predict" and gemini.headers["x-goog-api-key"] == KEY
    assert "authorization" not in gemini.headers
    assert gemini.body == {"instances": [{"prompt": "a cat"}], "parameters": {"sampleCount": 1, "aspectRatio": "1:1"}}
    assert vertex.path == path and vertex.headers["authorization"] == f"Bearer {KEY}"
    assert vertex.body["parameters"]["seed"] == 0 and vertex.body["parameters"]["addWatermark"] is False


async def test_a_prediction_is_waited_for_polled_and_cancelled_by_the_service(server, key):
    server.polls, server.reply_with = 3, "url"
    engine = remote(
        "x", server.url, kind="replicate", model="o/n", key_env="PICTURES_KEY", timeout_s=20, options={"poll_s": 0.02}
    )
    guides, _ = await one(engine)
    assert len(guides) == 1
    created, *polls, fetched = server.asked
    assert created.path == "/v1/models/o/n/predictions" and len(polls) == 3 and fetched.path.startswith("/files/")
    assert re.fullmatch(r"wait=\d+", created.headers["prefer"]) and re.fullmatch(r"\d+s", created.headers["cancel-after"])
    assert {asked.headers["authorization"] for asked in (created, *polls)} == {f"Bearer {KEY}"}
    await one(remote("x", server.url, kind="replicate", model="o/n:abc123"))
    (versioned,) = [asked for asked in server.drawn if asked.path == "/v1/predictions"]
    assert versioned.body["version"] == "abc123"


BAD = {
    "error": "answers 500: the GPU is on fire",
    "error_page": "answers 502",
    "denied": "answers 401",
    "empty": "an empty body",
    "html": "an HTML page",
    "not_json": "no JSON",
    "deep": "no JSON",
    "wrong_shape": "the reply should have",
    "no_pictures": "",
    "huge": "more than 32 MB",
    "huge_unannounced": "more than 32 MB",
    "gzip": "compressed",
    "reset": "broke off",
    "quota": "answers 429",
    "redirect": "redirects to",
    "text_picture": "not a picture",
    "truncated": "cannot be used",
    "blank": "blank",
    "thin": "pixels",
    "bomb": "cannot be used",
    "not_base64": "not base64",
}


@pytest.mark.parametrize(("kind", "mode"), list(product(KINDS, BAD)))
async def test_an_answer_that_is_none_costs_its_guide_and_says_what_came(server, kind, mode):
    server.mode = mode
    guides, said = await one(remote("x", server.url, kind=kind, timeout_s=20, **KINDS[kind]))
    assert guides == []
    assert said.startswith("generator 'x' gave nothing: ") and BAD[mode] in said


@pytest.mark.parametrize("mode", ["empty", "html", "huge", "huge_unannounced", "redirect", "text_picture", "truncated"])
async def test_an_address_with_no_picture_behind_it_costs_its_guide(server, mode):
    with ImageServer(reply_with="url") as second:
        second.mode = mode
        server.reply_with = f"{second.url}/files/x"
        engine = remote("x", server.url, options={"allow_hosts": [second.url.removeprefix("http://")]})
        guides, said = await one(engine)
    assert guides == [] and said
    assert second.bytes_sent < 100 * 2**20


@pytest.mark.parametrize("mode", ["huge", "huge_unannounced"])
async def test_a_gigabyte_is_not_read(server, mode):
    server.mode = mode
    _, said = await one(remote("x", server.url, options={"max_mb": 4}))
    assert said.endswith("4 MB (ask it for smaller pictures, or raise options.max_mb)")
    async with asyncio.timeout(120):
        while server.running:  # it notices that nobody reads
            await asyncio.sleep(0.02)
    assert server.bytes_sent < 64 * 2**20 < GIGABYTE


async def test_a_picture_of_another_size_is_reduced_and_says_so(server):
    server.mode = "wrong_size"
    (guide,), _ = await one(remote("x", server.url, size=64))
    assert guide.pixels.shape == (32, 64, 3) and guide.provenance["received"] == [128, 64]


async def test_one_spoilt_picture_of_several_costs_only_itself(server, caplog):
    class Half(ImageServer):
        def pictures(self, prompt, seed, size, n):
            return ["AAAA", *super().pictures(prompt, seed, size, n)[1:]]

    with Half() as half:
        guides, _ = await one(remote("x", half.url, options={"pictures_a_call": 3}), n=3)
    assert ids(guides) == ["x/1", "x/2"] and "one picture is left out" in caplog.text


async def test_a_hung_engine_is_given_up_at_its_time_out(server):
    server.mode = "hang"
    guides, said = await one(remote("x", server.url, timeout_s=1.5))
    assert guides == [] and "no answer within 1.5 s" in said
    async with asyncio.timeout(120):
        while server.running:
            await asyncio.sleep(0.02)
    assert server.asked[0].abandoned


async def test_an_engine_that_is_asked_by_itself_says_what_to_do_about_its_deadline(server):
    server.mode = "hang"
    generator = remote("x", server.url).generator
    with pytest.raises(DeadlineExceededError) as caught:
        await generator.generate(GuideRequest("a cat", "a cat", 1, deadline=time.monotonic() + 0.3))
    await generator.close()
    assert caught.value.hint == "raise the engine's timeout_s, or the query's deadline"


async def test_a_busy_service_is_asked_again_when_it_says_it_is_free(server):
    server.mode, server.retry_after = "busy", 0
    guides, said = await one(remote("x", server.url))
    assert len(guides) == 1 and said == "" and len(server.asked) == 2


async def test_a_service_that_is_busy_for_too_long_is_left_alone(server):
    server.mode, server.retry_after = "busy", 60
    hub, log = hub_of(remote("x", server.url, timeout_s=30, breaker_failures=50, breaker_seconds=0.01)), QueryNotes()
    started = time.monotonic()
    assert await drawn(hub, n=1, log=log) == []
    assert time.monotonic() - started < 30  # the service asks for 60 s
    await asyncio.sleep(0.05)
    assert await drawn(hub, n=1, log=log) == [] and len(server.asked) == 1
    assert hub.status().engines[0].breaker == "open"
    await hub.close()


async def test_an_error_is_not_tried_again_because_each_try_may_be_charged(server):
    server.mode = "error"
    await one(remote("x", server.url))
    assert len(server.asked) == 1


async def test_declined_words_leave_the_engine_in_use(server):
    server.mode = "declined"
    hub = hub_of(remote("x", server.url, kind="openai", breaker_failures=1))
    assert await drawn(hub, n=1) == []
    server.mode = "good"
    assert len(await drawn(hub, n=1)) == 1
    await hub.close()


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1:9/secret", "http://localhost:9/x", "http://169.254.169.254/latest/meta-data", "http://10.0.0.1/x",
     "http://[::1]:9/", "http://[::ffff:127.0.0.1]/", "http://0.0.0.0/", "http://user:pw@example.com/x", "http://nowhere.invalid/x"],
)  # fmt: skip
async def test_replies_cannot_have_private_addresses_fetched(server, address):
    server.reply_with = address
    guides, said = await one(remote("x", server.url))
    assert guides == []
    assert said.startswith("generator 'x' gave nothing: the reply names a picture at ")
    assert "host is not known" in said or said.endswith("(have the engine send base64, or allow the host: options.allow_hosts)")


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://example.com/x", "gopher://x/"])
async def test_other_schemes_are_never_fetched(server, address):
    server.reply_with = address
    guides, said = await one(remote("x", server.url))
    assert guides == [] and "cannot be used" in said


async def test_redirects_of_a_picture_are_checked_like_its_address(server):
    with ImageServer(mode="redirect") as second:
        second.redirect_to = "http://127.0.0.1:9/secret"
        server.reply_with = f"{second.url}/files/x"
        engine = remote("x", server.url, options={"allow_hosts": [second.url.removeprefix("http://")]})
        _, said = await one(engine)
        assert "private network" in said
        second.redirect_to = f"{second.url}/again"
        _, said = await one(engine)
        assert "more than 3 times" in said


async def test_no_service_leaves_cookies(server):
    jar = HttpClient(Access(httpx.URL(server.url), Credential("x", setting="x")))._client().cookies
    jar.extract_cookies(httpx.Response(200, headers={"Set-Cookie": "who=you"}, request=httpx.Request("GET", server.url)))
    assert not jar


async def test_a_reply_of_endless_names_is_told_in_short():
    assert len(unexpected("pictures", {"a" * 10_000: 1}).message) < 200


async def test_a_public_picture_is_fetched_from_the_address_that_was_checked_under_its_own_name(server, monkeypatch):
    with ImageServer(reply_with="url") as second:
        named = second.pictures("p", 0, 64, 1)[0].replace("127.0.0.1", "pictures.example")

        async def resolved(host, _port):
            assert host == "pictures.example"
            return ["127.0.0.1"]

        monkeypatch.setattr("lodestone.remote.http_client.resolve_host", resolved)
        monkeypatch.setattr("lodestone.remote.http_client.is_public", lambda address: address == "127.0.0.1")
        server.reply_with = named
        guides, said = await one(remote("x", server.url))
        assert len(guides) == 1, said
        assert second.asked[0].headers["host"] == named.split("/")[2]


def test_an_engine_serves_one_event_loop_after_another(server):
    hub = hub_of(remote("x", server.url))
    for _ in range(3):
        assert len(asyncio.run(drawn(hub, n=2))) == 2
    asyncio.run(hub.close())


def test_which_addresses_are_public():
    assert is_public("93.184.216.34") and is_public("2606:2800:220:1:248:1893:25c8:1946")
    for private in ("127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
                    "224.0.0.1", "::1", "fe80::1%eth0", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::",
                    "64:ff9b:1::a00:1", "::7f00:1", "fec0::1",
                    ):  # fmt: skip
        assert not is_public(private), private


@pytest.mark.parametrize(("kind", "mode"), list(product(KINDS, ["good", "error", "denied", "html", "redirect"])))
async def test_a_key_is_sent_and_seen_nowhere_else(server, kind, mode, key, caplog, monkeypatch):
    monkeypatch.setenv("PICTURES_KEY_TOO", f"{KEY}-too")
    caplog.set_level(logging.DEBUG)
    server.mode, server.redirect_to = mode, f"/?key={KEY}"
    observer, log = Recorder(), QueryNotes()
    settings = {**KINDS[kind], "options": {**KINDS[kind].get("options", {}), "header_env": {"X-Extra": "PICTURES_KEY_TOO"}}}
    engine = remote("x", server.url, kind=kind, key_env="PICTURES_KEY", **settings)
    hub = hub_of(engine, observer=observer)
    guides = await drawn(hub, n=1, log=log)
    assert any(KEY in value for value in server.asked[0].headers.values())
    trial = await try_engine(engine)
    shown = [guides, [dict(guide.provenance) for guide in guides], log.warnings, hub.status(), trial, observer.calls]
    shown += [repr(engine.generator.__dict__), describe_engine(engine)]
    shown += [caplog.text] if mode != "redirect" else []  # httpcore itself logs what a server puts into `Location`
    assert KEY not in repr(shown)
    await hub.close()


async def test_a_key_is_never_sent_to_another_host(server, key):
    with ImageServer(reply_with="url") as second:
        name = second.pictures("p", 0, 64, 1)[0]
        server.reply_with = name
        options = {"allow_hosts": [second.url.removeprefix("http://")], "header_env": {"X-Extra": "PICTURES_KEY"}}
        guides, _ = await one(remote("x", server.url, key_env="PICTURES_KEY", options=options))
        assert len(guides) == 1
        assert "authorization" not in second.asked[0].headers and "x-extra" not in second.asked[0].headers


async def test_a_key_file_is_read_at_each_call_and_a_missing_one_is_told(server, tmp_path, monkeypatch):
    path = tmp_path / "key"
    engine = remote("x", server.url, key_file=path)
    with pytest.raises(ModelUnavailableError, match="cannot be read"):
        await engine.generator.warm_up()
    for value in ("first", "second"):
        path.write_text(f"{value}\n")
        assert (await try_engine(engine)).outcome == "ok"
    assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer first", "Bearer second"]
    path.write_text("two\nlines of text")
    trial = await try_engine(engine)
    assert trial.outcome == "error" and "one word" in trial.message and "lines" not in trial.message
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    trial = await try_engine(remote("x", server.url, key_env="NO_SUCH_KEY"))
    assert trial.message == "the key of generator 'x' (environment variable NO_SUCH_KEY) is missing or empty"
    assert (trial.outcome, trial.hint) == ("error", "set it, or change generators.x.key_env or key_file")
    assert len(server.asked) == 2
    await engine.generator.close()


async def test_a_trial_tells_time_size_and_outcome_and_leaves_no_trace(server):
    engine = remote("x", server.url, cost=0.5, size=128, breaker_failures=1, timeout_s=2.0)
    hub = hub_of(engine)
    trial = await try_engine(engine)
    assert (trial.outcome, trial.guides, trial.width, trial.height, trial.cost) == ("ok", 1, 128, 128, 0.5)
    assert trial.seconds > 0
    server.mode = "error"
    trial = await try_engine(engine)
    assert trial.outcome == "error" and "500" in trial.message and trial.hint
    server.mode = "hang"
    assert (await try_engine(engine)).outcome == "timeout"
    (info,) = hub.status().engines
    assert (info.breaker, info.guides, info.failures) == ("closed", 0, 0)
    await hub.close()


def test_a_description_tells_where_the_key_is_and_not_what_it_is(key):
    told = describe_engine(remote("x", "http://localhost:1", key_env="PICTURES_KEY"))
    assert told["key"] == "found" and "PICTURES_KEY" in told["key_source"] and told["kind"] == "http"
    assert KEY not in repr(told)
    assert "missing" in describe_engine(remote("x", "http://localhost:1", key_env="NOT_SET_AT_ALL"))["key"]
