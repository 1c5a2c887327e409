"""A key that may index and search reads no file that was not indexed, whatever links and swaps its owner makes."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image
from tests.support.pictures import jpeg_bytes, write_photo
from tests.support.served import Served, served_here
from tests.support.tenants import OWN, Tenants, make_tenants

from lodestone.catalog.records import ImageState

SECRET = b"root:x:0:0:the secret of the machine\n"


@dataclass
class Home:
    """A served home, the folder of one of its tenants, and a folder that the tenant must not read."""

    tenants: Tenants
    served: Served
    http: httpx.Client
    folder: Path
    outside: Path

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {**self.tenants.headers(OWN), **options.pop("headers", {})}
        return self.http.request(method, path, headers=headers, **options)

    def pictures(self) -> dict[str, dict[str, Any]]:
        """Uri -> picture of everything that the tenant sees."""
        answer = self.ask("GET", "/v1/images", params={"corpus": OWN, "limit": 100})
        return {image["uri"]: image for image in answer.json()["images"]}

    def url(self, uri: str, tail: str) -> str:
        return f"/v1/images/{self.pictures()[uri]['image_id']}/{tail}"

    def index(self) -> None:
        """Have the tenant's directory indexed over HTTP, and wait until that is done."""
        (directory,) = [one for one in self.ask("GET", "/v1/directories").json()["directories"] if one["corpus"] == OWN]
        job = self.ask("POST", f"/v1/directories/{directory['directory_id']}/index").json()
        while job["state"] in {"waiting", "running"}:
            time.sleep(0.1)
            (job,) = [one for one in self.ask("GET", "/v1/jobs").json()["jobs"] if one["job_id"] == job["job_id"]]
        assert job["state"] == "done", job


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("files")
    tenants = make_tenants(folder)
    outside = folder / "outside"
    outside.mkdir()
    with served_here(tenants.settings) as served, httpx.Client(base_url=served.address.url, timeout=60) as http:
        yield Home(tenants, served, http, folder / f"{OWN}-pictures", outside)


def swap_for_link(path: Path, target: Path, *, content: bytes = b"") -> None:
    """Put a link in a picture's place, to a file that has the picture's size and time."""
    status = path.stat()
    target.write_bytes((content * (status.st_size // max(len(content), 1) + 1))[: status.st_size])
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    path.unlink()
    path.symlink_to(target)


def refused(answer: httpx.Response, status: int, code: str) -> None:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    problem = answer.json()
    assert (problem["code"], bool(problem["hint"])) == (code, True)
    assert SECRET[:10] not in answer.content


def test_links_to_files_and_folders_and_texts_outside_are_not_indexed(home: Home) -> None:
    (home.outside / "hostname").write_bytes(SECRET)
    (home.outside / "diary.txt").write_bytes(SECRET)
    write_photo(home.outside / "private.jpg", seed=50)
    (home.folder / "x.jpg").symlink_to(home.outside / "hostname")
    (home.folder / "y.jpg").symlink_to(home.outside / "private.jpg")
    (home.folder / "album").symlink_to(home.outside)
    write_photo(home.folder / "own.jpg", seed=51)
    (home.folder / "own.txt").symlink_to(home.outside / "diary.txt")
    (home.folder / "same.jpg").symlink_to("own.jpg")
    home.index()
    pictures = home.pictures()
    assert {"own.jpg", "same.jpg"} <= set(pictures)
    assert not [uri for uri in pictures if uri in {"x.jpg", "y.jpg"} or uri.startswith("album")]
    assert pictures["own.jpg"]["captions"] == []
    run = home.ask("GET", "/v1/runs", params={"corpus": OWN}).json()["runs"][0]["run_id"]
    failures = home.ask("GET", f"/v1/runs/{run}/failures").json()["failures"]
    assert {"x.jpg", "y.jpg", "album"} <= {failure["uri"] for failure in failures if "leads out" in failure["message"]}
    assert str(home.outside) not in str(failures)


@pytest.mark.parametrize("content", [SECRET, jpeg_bytes((320, 200), seed=60)], ids=["text", "picture"])
def test_a_picture_swapped_for_a_link_is_not_sent(home: Home, content: bytes) -> None:
    path, url = home.folder / "000001.jpg", home.url("000001.jpg", "content")
    before = path.read_bytes()
    assert home.ask("GET", url).content == before
    swap_for_link(path, home.outside / "swapped", content=content)
    try:
        refused(home.ask("GET", url), 404, "not_found")
        refused(home.ask("GET", url, headers={"Range": "bytes=0-9"}), 404, "not_found")
    finally:
        path.unlink()
        path.write_bytes(before)
    assert home.ask("GET", url).content == before


def test_a_folder_swapped_for_a_link_is_not_entered(home: Home) -> None:
    write_photo(home.folder / "year" / "one.jpg", seed=70)
    home.index()
    url = home.url("year/one.jpg", "content")
    assert home.ask("GET", url).status_code == 200
    (home.outside / "year").mkdir()
    (home.folder / "year").rename(home.folder / "away")
    (home.outside / "year" / "one.jpg").write_bytes((home.folder / "away" / "one.jpg").read_bytes())
    (home.folder / "year").symlink_to(home.outside / "year")  # even the same bytes: the file is not the tenant's
    refused(home.ask("GET", url), 404, "not_found")
    (home.folder / "year").unlink()
    (home.folder / "away").rename(home.folder / "year")
    assert home.ask("GET", url).status_code == 200


def test_other_content_of_the_same_size_and_time_is_not_sent(home: Home) -> None:
    path, url = home.folder / "000002.jpg", home.url("000002.jpg", "content")
    before, status = path.read_bytes(), path.stat()
    path.write_bytes((SECRET * (len(before) // len(SECRET) + 1))[: len(before)])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    refused(home.ask("GET", url), 404, "not_found")
    path.write_bytes(before)


def test_a_picture_that_waits_for_its_embedding_sends_nothing(home: Home) -> None:
    catalog = home.served.services.session.runtime.catalog
    (image,) = catalog.images([home.pictures()["000003.jpg"]["image_id"]]).values()
    catalog.update_images([replace(image, state=ImageState.PENDING, slice_id=None, width=0, height=0)])
    try:
        for tail in ("content", "thumbnail"):
            refused(home.ask("GET", home.url("000003.jpg", tail)), 409, "picture_not_ready")
    finally:
        catalog.update_images([image])
    assert home.ask("GET", home.url("000003.jpg", "content")).status_code == 200


def test_a_damaged_thumbnail_is_made_again_or_answers_a_problem(home: Home) -> None:
    image = home.pictures()["000004.jpg"]
    url, file = home.url("000004.jpg", "thumbnail"), home.served.services.session.runtime.thumbnails.file(image["hash"])
    assert file is not None
    whole = home.ask("GET", url).content
    file.write_bytes(b"<html>garbage")
    again = home.ask("GET", url)
    assert (again.status_code, again.content) == (200, whole)
    Image.open(io.BytesIO(again.content)).load()
    file.write_bytes(b"<html>garbage")
    path = home.folder / "000004.jpg"
    before = path.read_bytes()
    path.unlink()
    refused(home.ask("GET", url), 404, "not_found")
    path.write_bytes(before)
    assert home.ask("GET", url).content == whole


def test_parts_of_a_picture_are_sent_and_no_more(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    url, data = home.url("000000.jpg", "content"), (home.folder / "000000.jpg").read_bytes()
    for held in (8 << 20, 10):  # in memory, or sent from the file
        monkeypatch.setattr("lodestone.sources.verified.WHOLE_BYTES", held)
        size = len(data)
        for asked, expected in (("0-9", data[:10]), ("5-", data[5:]), ("-4", data[-4:]), (f"0-{size * 2}", data)):
            part = home.ask("GET", url, headers={"Range": f"bytes={asked}"})
            assert (part.status_code, part.content) == (206, expected)
            assert part.headers["content-range"].endswith(f"/{size}")
        assert home.ask("GET", url, headers={"Range": f"bytes={size}-"}).status_code == 416
        assert home.ask("GET", url, headers={"Range": "bytes=0-1,4-5"}).content == data
        assert home.ask("GET", url, headers={"Range": "bytes=0-1", "If-Range": '"other"'}).content == data
        tag = home.ask("GET", url).headers["etag"]
        assert home.ask("GET", url, headers={"If-None-Match": tag}).status_code == 304


def test_a_folder_named_by_a_link_from_elsewhere_is_added_by_its_own_path(home: Home) -> None:
    (home.folder / "inner").mkdir(exist_ok=True)
    link = home.outside / "link"
    link.symlink_to(home.folder / "inner")
    request = {"path": str(link), "corpus": OWN, "index": False}
    added = home.ask("POST", "/v1/directories", json=request)
    assert (added.status_code, added.json()["code"]) == (422, "invalid_request"), added.text  # it lies inside a directory
    assert "lies inside" in added.json()["detail"]
    roots = home.served.services.session.runtime.catalog.roots(None)
    assert str(link) not in {root.path for root in roots}
