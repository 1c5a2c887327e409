"""Dates and places beside pictures: one run takes them where the pictures have none, for the catalog and for filters alike."""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image
from tests.support.home import open_runtime
from tests.support.pictures import encoded, photo

from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.store.base import Between, Filter

TAKEN_AT = 1_258_375_918


def index(runtime: Runtime, folder: Path) -> IndexReport:
    return index_paths(runtime, IndexRequest((folder,)))


def takeout(picture: Path, seconds: int) -> None:
    facts = {"photoTakenTime": {"timestamp": str(seconds)}, "geoData": {"latitude": 30.6, "longitude": 104.0}}
    picture.with_name(f"{picture.name}.json").write_text(json.dumps(facts))


def taken(runtime: Runtime) -> dict[str, tuple[int | None, str | None, float | None]]:
    images = [image for root in runtime.catalog.roots() for image in runtime.catalog.images_of_root(root.root_id)]
    return {image.uri: (image.taken_at, image.taken_source, image.latitude) for image in images}


def found(runtime: Runtime, seconds: int) -> int:
    collection = runtime.store.aliases()["bridge"]
    return runtime.store.count(collection, Filter(must=(Between("taken_at", seconds, seconds + 1),)))


def test_one_run_takes_dates_and_places_from_beside_where_pictures_have_none(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = "2021:07:04 18:30:15"
    names = ("plain.jpg", "IMG-20161224-WA0014.jpg", "dated.jpg", "alone.jpg")
    for number, name in enumerate(names):
        own = exif.tobytes() if name == "dated.jpg" else b""
        (folder / name).write_bytes(encoded(photo((64, 48), seed=number), "JPEG", exif=own))
        if name != "alone.jpg":
            takeout(folder / name, TAKEN_AT + number)
    wanted = {
        "plain.jpg": (TAKEN_AT, "sidecar", 30.6),
        "IMG-20161224-WA0014.jpg": (TAKEN_AT + 1, "sidecar", 30.6),
        "dated.jpg": (1_625_423_415, "exif", 30.6),
        "alone.jpg": (None, None, None),
    }
    with open_runtime(tmp_path) as runtime:
        index(runtime, folder)
        assert taken(runtime) == wanted
        assert [found(runtime, TAKEN_AT + number) for number in range(3)] == [1, 1, 0]
        assert index(runtime, folder).counts.get("embedded", 0) == 0
        assert taken(runtime) == wanted
        takeout(folder / "plain.jpg", TAKEN_AT + 100)
        assert index(runtime, folder).counts.get("embedded", 0) == 0
        assert taken(runtime)["plain.jpg"] == (TAKEN_AT + 100, "sidecar", 30.6)
        assert (found(runtime, TAKEN_AT), found(runtime, TAKEN_AT + 100)) == (0, 1)
