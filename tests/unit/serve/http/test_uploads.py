"""Uploads that are no picture or too much of one are refused, whatever they claim to be, and large ones leave a slot."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx
import pytest
from PIL import Image
from tests.support import pictures
from tests.support.fake_services import FakeServices
from tests.support.home import open_runtime

from lodestone.config.serve import ServeSettings
from lodestone.home.runtime import Runtime
from lodestone.query.asking.request_context import NOW, RequestContext
from lodestone_schemas.api import SearchOptions, SearchResponse
from lodestone_serve.http.application import create_app

SVG = b'<?xml version="1.0"?><!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]><svg xmlns="http://www.w3.org/2000/svg">&x;</svg>'
LAUGHS = b'<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "' + b"&a;" * 50 + b'">]><svg xmlns="http://www.w3.org/2000/svg">&b;</svg>'


class Decoding(FakeServices):
    """Decodes uploads as the real services do, and answers with the size."""

    def __init__(self, folder: Path, runtime: Runtime) -> None:
        super().__init__(folder)
        self.runtime = runtime
        self.sizes: list[tuple[int, int]] = []

    async def by_picture(
        self, picture: bytes, options: SearchOptions, *, request_context: RequestContext = NOW
    ) -> SearchResponse:
        self.sizes.append(self.runtime.decode(picture).size)
        return self.response("picture")


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    return open_runtime(tmp_path_factory.mktemp("uploads"), max_decoded_mb=128)


@pytest.fixture
def services(tmp_path: Path, runtime: Runtime) -> Decoding:
    return Decoding(tmp_path, runtime)


@pytest.fixture
async def http(services: Decoding) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(services, settings=ServeSettings(max_upload_mb=16), token="t")
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def one_colour(mode: str, kind: str, **options: object) -> bytes:
    return encoded(Image.new(mode, (12_000, 12_000)), kind, **options)


def zipped(content: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", content)
    return target.getvalue()


REFUSED = {
    "20,000 x 20,000 pixels": (pictures.huge_png_bytes, 413, "image_too_large"),
    "a bomb of one colour": (partial(one_colour, "L", "PNG", optimize=True), 413, "image_too_large"),
    "a bomb as WebP": (partial(one_colour, "RGB", "WEBP", lossless=True), 413, "image_too_large"),
    "svg with an entity": (SVG, 422, "bad_image"),
    "a billion laughs": (LAUGHS, 422, "bad_image"),
    "html": (b"<html><script>alert(1)</script></html>", 422, "bad_image"),
    "nothing": (b"", 422, "bad_image"),
    "a zip": (zipped(b"0" * 1_000_000), 422, "bad_image"),
    "pdf": (b"%PDF-1.7\n1 0 obj", 422, "bad_image"),
    "postscript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(/etc/passwd) (r) file", 422, "bad_image"),
    "a path": (b"/etc/passwd", 422, "bad_image"),
    "half a picture": (pictures.jpeg_bytes()[:400], 422, "bad_image"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_is_no_picture_or_too_large_a_one_is_refused(http: httpx.AsyncClient, services: Decoding, case: str) -> None:
    made, status, code = REFUSED[case]
    content = made if isinstance(made, bytes) else made()  # (seconds, which not every collection of tests should take)
    assert len(content) < 2**24, "it is the decoder that must refuse, not the limit of the body"
    answer = await http.post("/v1/search/image", files={"image": ("a.png", content, "image/png")})
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert "root:" not in answer.text
    assert services.sizes == []


async def test_of_an_animation_one_frame_is_taken_however_many_there_are(http: httpx.AsyncClient, services: Decoding) -> None:
    frames = [Image.new("P", (400, 300), color) for color in range(200)]
    animation = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:], loop=0)
    answer = await http.post("/v1/search/image", files={"image": ("a.gif", animation, "image/gif")})
    assert answer.status_code == 200, answer.text
    assert services.sizes == [(400, 300)]


async def test_neither_the_name_nor_the_kind_that_an_upload_claims_counts(http: httpx.AsyncClient, services: Decoding) -> None:
    for name in ("../../etc/passwd", "a.svg", "\x00", "con", "a.png\r\nX-Evil: 1"):
        answer = await http.post("/v1/search/image", files={"image": (name, pictures.jpeg_bytes(), "text/html")})
        assert answer.status_code == 200, f"{name[:40]!r}: {answer.text}"
        assert "x-evil" not in answer.headers
    assert len(services.sizes) == 5


async def test_many_parts_and_fields_are_refused(http: httpx.AsyncClient, services: Decoding) -> None:
    many = [("image", (f"{one}.png", b"x", "image/png")) for one in range(1_500)]
    answer = await http.post("/v1/search/image", files=many)
    assert 400 <= answer.status_code < 500, answer.text
    long = await http.post(
        "/v1/search/image", files={"image": ("a", pictures.jpeg_bytes())}, data={"options": " " * 70_000 + "{}"}
    )
    assert 400 <= long.status_code < 500, long.text
    assert services.sizes == []


class Waiting(FakeServices):
    """Holds searches by picture until they are let go."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.go = asyncio.Event()
        self.begun = asyncio.Semaphore(0)

    async def by_picture(
        self, picture: bytes, options: SearchOptions, *, request_context: RequestContext = NOW
    ) -> SearchResponse:
        self.begun.release()
        await self.go.wait()
        return self.response("picture")


@pytest.mark.parametrize(("slots", "uploads"), [(3, 2), (2, 1), (1, 1)])
async def test_large_uploads_leave_a_slot_for_words(tmp_path: Path, slots: int, uploads: int) -> None:
    services = Waiting(tmp_path)
    settings = ServeSettings.model_validate({"max_ongoing": slots, "max_queued": 8, "load": {"adaptive": False}})
    app = create_app(services, settings=settings, token="t")
    large = {"image": ("a.png", bytes(100_000), "image/png")}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
        held = [asyncio.create_task(client.post("/v1/search/image", files=large)) for _ in range(uploads)]
        for _ in held:
            await services.begun.acquire()
        refused = await client.post("/v1/search/image", files=large)
        assert (refused.status_code, refused.json()["code"]) == (429, "overloaded"), refused.text
        if slots > 1:  # a single slot serves whoever came first
            words = await asyncio.wait_for(client.post("/v1/search", json={"query": "dots"}), 5)
            assert words.status_code == 200, words.text
        services.go.set()
        assert [answer.status_code for answer in await asyncio.gather(*held)] == [200] * uploads
