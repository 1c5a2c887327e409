"""Folders and files that are left out of the index: homes, marked folders and patterns, over several runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.home import image_ids, open_runtime
from tests.support.pictures import write_photo, write_photos

from lodestone.errors import InvalidRequestError
from lodestone.home.runtime import Runtime
from lodestone.indexing.run.index_run import index_paths
from lodestone.indexing.run.report import IndexReport, IndexRequest


def _index(runtime: Runtime, *paths: Path) -> IndexReport:
    return index_paths(runtime, IndexRequest(paths))


def test_a_home_inside_the_folder_adds_no_picture_in_any_run(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 2)
    for _ in range(3):
        with open_runtime(tmp_path / "photos") as runtime:
            report = _index(runtime, tmp_path / "photos")
        assert report.images == 2
        assert report.left_out == {"homes of Lodestone": 1}
        assert report.as_dict()["left_out"] == {"homes of Lodestone": 1}
    assert len(list((tmp_path / "photos" / "home" / "thumbnails").glob("*/*.jpg"))) == 2


def test_thumbnails_that_the_settings_put_inside_the_folder_add_no_picture(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    write_photos(photos, 2)
    for _ in range(2):
        with open_runtime(tmp_path, thumbnails=str(photos / "previews")) as runtime:
            assert _index(runtime, photos).images == 2
    assert len(list((photos / "previews").glob("*/*.jpg"))) == 2


def test_a_picture_that_is_left_out_later_is_gone_and_comes_back_with_its_id(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    write_photos(photos, 2)
    write_photo(photos / "private" / "p.jpg", seed=7)
    with open_runtime(tmp_path) as runtime:
        _index(runtime, photos)
        ids = image_ids(runtime)
        assert len(ids) == 3
        for control, content in ((".nomedia", ""), (".lodestoneignore", "p.*\n")):
            path = photos / "private" / control
            path.write_text(content)
            report = _index(runtime, photos)
            assert (report.images, report.counts["gone"]) == (2, 1)
            assert image_ids(runtime).keys() == {"photos/000000.jpg", "photos/000001.jpg"}
            path.unlink()
            back = _index(runtime, photos)
            assert (back.images, back.counts["back"], back.counts.get("embedded", 0)) == (3, 1, 0)
            assert image_ids(runtime) == ids


def test_a_pattern_of_the_settings_applies_to_every_directory(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    write_photos(photos, 2)
    write_photo(photos / "raw" / "r.jpg", seed=7)
    with open_runtime(tmp_path, exclude=["raw/", "*1.jpg"]) as runtime:
        report = _index(runtime, photos)
        assert image_ids(runtime).keys() == {"photos/000000.jpg"}
        assert report.left_out == {"matches of patterns": 2}


def test_a_folder_of_which_everything_is_left_out_says_so(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", 1)
    (tmp_path / "photos" / ".nomedia").touch()
    with open_runtime(tmp_path) as runtime, pytest.raises(InvalidRequestError, match="left out: 1 folder with a marker"):
        _index(runtime, tmp_path / "photos")


def test_patterns_of_a_run_stay_with_the_directory_until_they_are_removed(tmp_path: Path) -> None:
    from lodestone.directories.service import DirectoryService
    from lodestone.embeddings.corpus_records import read_corpus_record
    from lodestone_schemas.directories import DirectoryChange

    photos = tmp_path / "photos"
    write_photos(photos, 2)
    write_photo(photos / "raw" / "r.jpg", seed=7)
    with open_runtime(tmp_path) as runtime:
        index_paths(runtime, IndexRequest((photos,), exclude=("raw/",)))
        assert len(image_ids(runtime)) == 2
        assert _index(runtime, photos).left_out == {"matches of patterns": 1}
        assert _index(runtime, photos / "000000.jpg").images == 2
        index_paths(runtime, IndexRequest((photos,), exclude=("*1.jpg", "raw/")))
        (root,) = runtime.catalog.roots()
        assert root.patterns == ("raw/", "*1.jpg")
        assert image_ids(runtime).keys() == {"photos/000000.jpg"}
        record = read_corpus_record(runtime.embeddings, root.corpus_id)
        assert record is not None
        assert record.roots[0].patterns == root.patterns
        service = DirectoryService(runtime.catalog, runtime.home)
        assert service.describe(root.root_id).exclude == ["raw/", "*1.jpg"]
        service.change(root.root_id, DirectoryChange(enabled=True))
        assert service.describe(root.root_id).exclude == ["raw/", "*1.jpg"]
        service.change(root.root_id, DirectoryChange(exclude=[]))
        assert len(_listed_after(runtime, photos)) == 3
        with pytest.raises(InvalidRequestError, match="'!'"):
            service.change(root.root_id, DirectoryChange(exclude=["!"]))
        with pytest.raises(InvalidRequestError, match="one line"):
            service.change(root.root_id, DirectoryChange(exclude=["a\nb"]))
        with pytest.raises(InvalidRequestError, match="'!'"):
            index_paths(runtime, IndexRequest((photos,), exclude=("!",)))


def _listed_after(runtime: Runtime, photos: Path) -> set[str]:
    _index(runtime, photos)
    return set(image_ids(runtime))
