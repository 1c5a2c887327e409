"""A bucket that throttles, resets or stalls, and an archive with a broken member: nothing is lost, nothing is there twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.archives import tar_bytes
from tests.support.home import image_ids, open_runtime, vectors_of
from tests.support.pictures import jpeg_bytes
from tests.support.s3_server import S3Server, s3_server

from lodestone.errors import LodestoneError
from lodestone.home.runtime import Runtime
from lodestone.indexing.progress import silent
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest
from lodestone.indexing.sync.collections import make_targets
from lodestone.indexing.sync.verify import examine

# The clients wait ever longer before they ask a bucket again that throttles, or that stalls.
SLOW, STALL = (pytest.param(fault, marks=[pytest.mark.slow, pytest.mark.nightly]) for fault in ("slow", "stall"))
PICTURES = [jpeg_bytes((64, 48), seed=i) for i in range(8)]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    monkeypatch.setattr("lodestone.files.s3._ANSWER_SECONDS", 1.0)
    with s3_server("photos") as server:
        yield server


def first_times(times: int, fault: str, *methods: str) -> Callable[[str, str], str | None]:
    """A fault of the first requests for each object, by these methods."""
    seen: Counter[tuple[str, str]] = Counter()
    lock = threading.Lock()

    def happens(method: str, key: str) -> str | None:
        with lock:
            seen[method, key] += 1
            return fault if method in methods and seen[method, key] <= times else None

    return happens


def index(runtime: Runtime, *paths: str, **options: object) -> IndexReport:
    return index_paths(runtime, IndexRequest(tuple(paths), **options))  # type: ignore[arg-type]


def check_whole(runtime: Runtime, pictures: int) -> None:
    """Every picture is there once: in the catalog, in the collections by their points, and as a thumbnail."""
    ids = set(image_ids(runtime).values())
    active = {image_id for image_id, image in runtime.catalog.images(ids).items() if image.state == "active"}
    assert len(active) == pictures
    assert set(vectors_of(runtime, "bridge")) == active
    for target in make_targets(runtime):
        assert examine(runtime.store, target, progress=silent, sample=None).ok
    for image in runtime.catalog.images(active).values():
        assert runtime.thumbnails.good(image.hash) is not None


@pytest.mark.parametrize("fault", [SLOW, "reset", STALL])
def test_a_bucket_that_fails_now_and_then_costs_time_only(tmp_path: Path, s3: S3Server, fault: str) -> None:
    s3.put("photos", {f"in/{i:02}.jpg": content for i, content in enumerate(PICTURES)})
    s3.stall_seconds = 1.5
    s3.fault = first_times(1, fault, "GET", "PUT")
    at = {"embeddings": s3.url("photos/home/embeddings"), "thumbnails": s3.url("photos/home/thumbnails")}
    with open_runtime(tmp_path, slice_size=4, backoff_s=0.1, **at) as runtime:
        report = index(runtime, s3.url("photos/in"))
        assert (report.images, report.counts["failed"]) == (len(PICTURES), 0)
        check_whole(runtime, len(PICTURES))
        s3.fault = lambda _method, _key: None
        assert index(runtime, s3.url("photos/in")).counts.get("embedded", 0) == 0
    assert s3.uploads("photos") == []


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("fault", [SLOW, "reset"])
def test_a_bucket_that_fails_for_long_ends_the_run_and_the_next_one_loses_nothing(
    tmp_path: Path, s3: S3Server, fault: str
) -> None:
    s3.put("photos", {f"in/{i:02}.jpg": content for i, content in enumerate(PICTURES)})
    answered = iter(range(10_000))

    def breaks(method: str, key: str) -> str | None:
        return fault if method == "GET" and key.endswith(".jpg") and next(answered) >= 5 else None

    with open_runtime(tmp_path, slice_size=4, attempts=2, backoff_s=0.1) as runtime:
        s3.fault = breaks
        with pytest.raises(LodestoneError):
            index(runtime, s3.url("photos/in"))
        assert not list(runtime.catalog.failures()), "a picture was given up although its bucket was away"
        s3.fault = lambda _method, _key: None
        report = index(runtime, s3.url("photos/in"))
        assert (report.images, report.counts["failed"]) == (len(PICTURES), 0)
        check_whole(runtime, len(PICTURES))


def test_a_broken_member_of_an_archive_costs_itself(tmp_path: Path, s3: S3Server) -> None:
    members = {f"{i}.jpg": content for i, content in enumerate(PICTURES)}
    members["5.jpg"] = PICTURES[5][: len(PICTURES[5]) // 2]
    s3.put("photos", {"shards/s-0.tar": tar_bytes(members)})
    s3.fault = first_times(1, "slow", "GET")
    with open_runtime(tmp_path, slice_size=6, backoff_s=0.1) as runtime:
        report = index(runtime, s3.url("photos/shards/s-*.tar"))
        assert (report.images, report.counts["failed"]) == (len(PICTURES) - 1, 1)
        (failure,) = runtime.catalog.failures()
        assert failure.uri.endswith("5.jpg")
        check_whole(runtime, len(PICTURES) - 1)
        s3.put("photos", {"shards/s-0.tar": tar_bytes(members | {"5.jpg": PICTURES[5]})})
        again = index(runtime, s3.url("photos/shards/s-*.tar"))
        assert again.images == len(PICTURES)
        check_whole(runtime, len(PICTURES))
