"""A folder inside a directory becomes one of its own: it can be disabled, watched and removed, and stays removed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.home import image_ids, open_runtime
from tests.support.pictures import write_photo, write_photos

from lodestone.directories.changes import leave_out_around, remove_directory, split_directory
from lodestone.errors import InvalidRequestError, NotFoundError
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexRequest
from lodestone.indexing.sync.collections import sync


def _payloads(runtime: Runtime) -> dict[str, set[str]]:
    """Root id -> pictures of the collection `bridge` whose payload names it."""
    roots: dict[str, set[str]] = {}
    for batch in runtime.store.scroll(runtime.store.aliases()["bridge"]):
        for point, payload in zip(batch.ids, batch.payloads, strict=True):
            roots.setdefault(str(payload["root"]), set()).add(point)
    return roots


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    write_photos(tmp_path / "photos", 2)
    for number, name in enumerate(("2018/a.jpg", "2018/deep/b.jpg", "2018 too/c.jpg", "2018/drafts/d.jpg")):
        write_photo(tmp_path / "photos" / name, seed=50 + number)
    (tmp_path / "photos" / "2018" / "bad.jpg").write_bytes(b"no picture")
    (tmp_path / "photos" / ".lodestoneignore").write_text("drafts/\n/2018/private/\n/2019/\n")
    return tmp_path / "photos"


def test_a_folder_that_is_split_off_keeps_its_pictures_and_what_is_left_out(tmp_path: Path, photos: Path) -> None:
    with open_runtime(tmp_path) as runtime:
        index_paths(runtime, IndexRequest((photos,)))
        before = image_ids(runtime)
        (root,) = runtime.catalog.roots()
        runtime.catalog.set_root(root.root_id, watched=True)
        part, moved = split_directory(runtime, root.root_id, "/2018/")
        assert (part.path, part.watched, part.enabled, moved) == (str(photos / "2018"), True, True, 3)
        assert part.patterns == ("drafts/", "/private/")
        after = image_ids(runtime)
        assert after["2018/a.jpg"] == before["photos/2018/a.jpg"]
        assert after["2018/deep/b.jpg"] == before["photos/2018/deep/b.jpg"]
        assert after["photos/2018 too/c.jpg"] == before["photos/2018 too/c.jpg"]
        assert set(after.values()) == set(before.values())
        failures = {(failure.root_id, failure.uri) for failure in runtime.catalog.failures()}
        assert failures == {(part.root_id, "bad.jpg")}
        sync(runtime)
        assert _payloads(runtime)[part.root_id] == {after["2018/a.jpg"], after["2018/deep/b.jpg"]}
        assert split_directory(runtime, root.root_id, "2018") == (part, 0)
        report = index_paths(runtime, IndexRequest((photos,)))
        assert report.counts.get("embedded", 0) == report.counts.get("new", 0) == 0
        assert image_ids(runtime) == after


def test_a_folder_that_is_removed_is_not_indexed_again_by_the_directory_around_it(tmp_path: Path, photos: Path) -> None:
    with open_runtime(tmp_path) as runtime:
        index_paths(runtime, IndexRequest((photos,)))
        (root,) = runtime.catalog.roots()
        part, _ = split_directory(runtime, root.root_id, "2018")
        sync(runtime)
        remove_directory(runtime, part.root_id)
        (outer,) = leave_out_around(runtime.catalog, part)
        assert outer.patterns == ("/2018/",)
        report = index_paths(runtime, IndexRequest((photos,)))
        assert report.images == 3
        assert image_ids(runtime).keys() == {"photos/000000.jpg", "photos/000001.jpg", "photos/2018 too/c.jpg"}
        assert part.root_id not in _payloads(runtime)


def test_a_call_that_was_killed_is_finished_by_the_next(tmp_path: Path, photos: Path) -> None:
    with open_runtime(tmp_path) as runtime:
        index_paths(runtime, IndexRequest((photos,)))
        (root,) = runtime.catalog.roots()
        part = runtime.catalog.ensure_root(root.corpus_id, str(photos / "2018"))
        assert split_directory(runtime, root.root_id, "2018") == (part, 3)


def test_what_is_no_folder_with_pictures_is_refused(tmp_path: Path, photos: Path) -> None:
    with open_runtime(tmp_path) as runtime:
        index_paths(runtime, IndexRequest((photos,)))
        (root,) = runtime.catalog.roots()
        for folder in ("", "/", "..", "2018/../..", "a\0b"):
            with pytest.raises(InvalidRequestError, match="no folder inside"):
                split_directory(runtime, root.root_id, folder)
        for folder in ("2017", "deep", "000000.jpg", "2018/drafts"):
            with pytest.raises(NotFoundError, match="no pictures in"):
                split_directory(runtime, root.root_id, folder)
        assert len(runtime.catalog.roots()) == 1


def test_the_pattern_of_a_removed_folder_matches_that_folder_alone(tmp_path: Path) -> None:
    from lodestone.catalog.catalog import Catalog
    from lodestone.sources.exclusion import Exclusion

    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        corpus = catalog.ensure_corpus("c")
        catalog.ensure_root(corpus.corpus_id, "/p")
        removed = catalog.ensure_root(corpus.corpus_id, "/p/a/[x] #1! *?\\ y")
        (around,) = leave_out_around(catalog, removed)
        exclusion = Exclusion("/p", patterns=around.patterns)
        assert exclusion.leaves_out("a/[x] #1! *?\\ y/z.jpg")
        for other in ("a/x #1! *?\\ y/z.jpg", "a/[x] #1! abc\\ y/z.jpg", "b/a/[x] #1! *?\\ y/z.jpg", "a/z.jpg"):
            assert not exclusion.leaves_out(other)
