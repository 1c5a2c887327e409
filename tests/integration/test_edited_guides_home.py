"""Edited guides in a home: pictures are read from files or thumbnails, sent to an engine over HTTP, and shown over HTTP."""

from __future__ import annotations

import base64
import io
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image
from tests.support.home import image_ids, settings_for
from tests.support.homes import index, write_pictures
from tests.support.image_servers import ImageServer
from tests.support.in_process import app_of, client_of, opened_services
from tests.support.photos import CAT, COFFEE, ROCKET, photo
from tests.support.pictures import encoded

from lodestone.catalog.records import ImageState
from lodestone.config.compositions import CompositionSettings
from lodestone.config.engines import EngineSettings
from lodestone.config.settings import Settings
from lodestone.errors import ConfigurationError
from lodestone.home.indexed_pictures import IndexedPictures
from lodestone.home.runtime import Runtime
from lodestone.services.use_cases import Services
from lodestone_serve.inference.home import home_services

RIGHT = (0.5, 0.0, 0.5, 1.0)


@pytest.fixture(scope="module")
def server() -> Iterator[ImageServer]:
    with ImageServer() as server:
        yield server


@pytest.fixture(scope="module")
def settings(server: ImageServer, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("editing")
    (folder / "pictures").mkdir()
    write_pictures(folder / "pictures", drawn=8)
    plain = settings_for(folder)
    index(plain, folder / "pictures")
    painter = EngineSettings(kind="http", url=server.url, size=64, options={"edits": True})
    return plain.model_copy(
        update={
            "compositions": {"default": CompositionSettings(target="guide", strength=0.3)},
            "generators": {"painter": painter},
            "query": plain.query.model_copy(update={"generators": ["exemplar", "painter"]}),
        }
    )


@pytest.fixture
async def services(settings: Settings) -> AsyncIterator[Services]:
    async with opened_services(settings) as opened:
        yield opened


@pytest.fixture
async def http(settings: Settings, services: Services) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app_of(services, settings)) as client:
        yield client


@pytest.fixture
def ids(services: Services) -> dict[str, str]:
    found = image_ids(services.session.runtime, "photos")
    return {Path(uri).stem: image_id for uri, image_id in found.items()}


def sent_by(server: ImageServer) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(server.drawn[-1].body["image"])))


def likeness(one: Image.Image, other: Image.Image) -> float:
    """Mean difference of two pictures in one size, in steps of a colour."""
    first, second = (
        np.asarray(each.convert("RGB").resize((16, 16), Image.Resampling.BOX), np.float32) for each in (one, other)
    )
    return float(np.abs(first - second).mean())


async def test_indexed_pictures_regions_and_uploads_are_edited_and_their_guides_are_shown(http, ids, server) -> None:
    cat = photo(CAT)
    right = cat.crop((cat.width // 2, 0, cat.width, cat.height))

    async def asked(**request: Any) -> dict[str, Any]:
        answer = await http.post("/v1/search", json={"deadline_ms": 60_000, "query": "at night", **request})
        assert answer.status_code == 200, answer.text
        return answer.json()

    first = await asked(like=[ids[Path(CAT).stem]])
    assert (first["stage"], first["dropped"], first["warnings"]) == ("guides", [], [])
    (guide,) = first["guides"]
    assert (guide["guide_id"], guide["status"]) == ("painter/0", "used")
    assert guide["provenance"]["edited_from"] == ids[Path(CAT).stem]
    assert likeness(sent_by(server), cat) < 5 < likeness(sent_by(server), right)
    assert (server.drawn[-1].body["prompt"], server.drawn[-1].body["strength"]) == ("at night", 0.3)
    picture = await http.get(guide["picture"])
    assert (picture.status_code, picture.headers["content-type"]) == (200, "image/jpeg")
    record = (await http.get(f"/v1/queries/{first['query_id']}")).json()
    assert [one["guide_id"] for one in record["guides"]] == ["painter/0"]
    assert (await http.post(f"/v1/queries/{first['query_id']}/replay")).json()["identical"]

    refined = await asked(refine_of=first["query_id"], query="in the rain")
    assert server.drawn[-1].body["prompt"] == "at night, in the rain"  # composed anew, of the picture itself
    assert likeness(sent_by(server), cat) < 5 and refined["guides"][0]["status"] == "used"

    region = dict(zip("xywh", RIGHT, strict=True))
    cropped = await asked(like=[ids[Path(CAT).stem]], region=region)
    assert likeness(sent_by(server), right) < 5 and cropped["guides"][0]["status"] == "used"
    calls = len(server.drawn)
    again = await asked(refine_of=cropped["query_id"], query="")
    assert again["guides"][0]["cached"] == "exact" and len(server.drawn) == calls  # the region was read again

    options = '{"query": "at night", "deadline_ms": 60000}'
    upload = await http.post(
        "/v1/search/image", files={"image": ("a.png", encoded(photo(ROCKET), "PNG"))}, data={"options": options}
    )
    assert upload.status_code == 200 and upload.json()["guides"][0]["provenance"]["edited_from"] == "an uploaded picture"
    assert likeness(sent_by(server), photo(ROCKET)) < 8
    forgotten = await asked(refine_of=upload.json()["query_id"], query="in the rain")
    assert forgotten["guides"] == [] and "its picture is not kept" in forgotten["dropped"][0]


def test_pictures_are_read_from_their_files_or_else_from_their_thumbnails(settings, caplog) -> None:
    with Runtime.open(settings) as runtime:
        found = {Path(uri).stem: image_id for uri, image_id in image_ids(runtime, "photos").items()}
        pictures, coffee = IndexedPictures(runtime, runtime.decode), found[Path(COFFEE).stem]
        whole = pictures.pixels(coffee, side=1_024)
        assert whole is not None and whole.shape[:2] == photo(COFFEE).size[::-1]
        half = pictures.pixels(coffee, side=1_024, region=RIGHT)
        assert half is not None and np.array_equal(half, whole[:, whole.shape[1] // 2 :])
        assert pictures.pixels("00000000-0000-5000-8000-000000000000", side=64) is None
        least = pictures.pixels(coffee, side=1_024, region=(0.5, 0.5, 1e-320, 1e-320))
        assert least is not None and least.shape == (1, 1, 3)
        file = next(settings.home.parent.glob(f"pictures/{Path(COFFEE).stem}.jpg"))
        content = file.read_bytes()
        try:
            file.write_bytes(encoded(photo(ROCKET), "JPEG"))  # what it shows now was never indexed
            small = pictures.pixels(coffee, side=1_024)
            assert small is not None and small.shape[0] < whole.shape[0]
            assert likeness(Image.fromarray(small), photo(COFFEE)) < 5
            assert "its thumbnail is used" in caplog.text
            image = runtime.catalog.images([coffee])[coffee]
            runtime.thumbnails.put(image.hash, b"damaged")
            assert pictures.pixels(coffee, side=1_024) is None
        finally:
            file.write_bytes(content)


def test_a_picture_that_waits_to_be_embedded_is_not_read(settings, monkeypatch) -> None:
    with Runtime.open(settings) as runtime:
        (image_id, *_) = image_ids(runtime, "photos").values()
        (image,) = runtime.catalog.images([image_id]).values()
        pending = type(image)(**{**{name: getattr(image, name) for name in image.__slots__}, "state": ImageState.PENDING})
        monkeypatch.setattr(runtime.catalog, "images", lambda ids: dict.fromkeys(ids, pending))
        assert IndexedPictures(runtime, runtime.decode).pixels(image_id, side=64) is None


def test_a_home_without_an_engine_that_edits_says_so_before_it_answers(settings) -> None:
    without = settings.model_copy(update={"generators": {}, "query": settings.query.model_copy(update={"generators": None})})
    with Runtime.open(without) as runtime:
        with pytest.raises(ConfigurationError, match="no engine that queries ask edits pictures: exemplar"):
            runtime.engine()
        runtime.engine(shadow=True)  # which draws no guides


async def test_a_service_without_such_an_engine_does_not_start(settings) -> None:
    without = settings.model_copy(update={"generators": {}, "query": settings.query.model_copy(update={"generators": None})})
    opened = home_services(without)
    with pytest.raises(ConfigurationError, match="no engine that queries ask edits pictures"):
        await opened.session.open()
    await opened.session.close()
