"""A directory whose folder was moved as a whole is recognised, and no other. Relocating keeps what pictures have."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.library import Library

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import Corpus, ImageRecord, ImageState, TagRecord
from lodestone.files.beneath import Boundaries
from lodestone.indexing.scan.mounts import Mounts
from lodestone.indexing.scan.moved_roots import MovedRoot, follow_moved_root, holds_any, merge_root

COUNT = 20


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        yield catalog


@pytest.fixture
def corpus(catalog: Catalog) -> Corpus:
    return catalog.ensure_corpus("c")


@pytest.fixture
def photos(catalog: Catalog, tmp_path: Path) -> Library:
    """A directory of twenty pictures in two folders, entered in the catalog."""
    library = Library(catalog, tmp_path / "photos")
    (library.folder / "sub").mkdir(parents=True)
    for number in range(COUNT):
        library.write(f"sub/{number:02}" if number % 2 else f"{number:02}", b"picture %d" % number)
    library.look()
    return library


def ids(catalog: Catalog) -> dict[str, str]:
    """`root path`/uri -> image id of every picture that is not gone."""
    return {
        f"{root.path}/{image.uri}": image.image_id
        for root in catalog.roots()
        for image in catalog.images_of_root(root.root_id)
        if image.state is not ImageState.GONE
    }


def follow(catalog: Catalog, corpus: Corpus, folder: Path, mounts: Mounts | None = None) -> tuple[MovedRoot | None, list[str]]:
    return follow_moved_root(catalog, corpus, folder, boundaries=Boundaries(), mounts=mounts or Mounts())


def test_a_renamed_folder_is_the_same_directory(catalog: Catalog, corpus: Corpus, photos: Library, tmp_path: Path) -> None:
    before, (root,) = ids(catalog), catalog.roots()
    photos.folder.rename(tmp_path / "photos2")
    moved, doubts = follow(catalog, corpus, tmp_path / "photos2")
    assert moved is not None
    assert (moved.former, moved.images, doubts) == (str(tmp_path / "photos"), COUNT, [])
    assert [(one.root_id, one.path, one.name) for one in catalog.roots()] == [
        (root.root_id, str(tmp_path / "photos2"), "photos")
    ]
    assert {key.replace("/photos2/", "/photos/"): value for key, value in ids(catalog).items()} == before
    photos.look(tmp_path / "photos2")
    assert photos.counts == {"unchanged": COUNT}


def test_a_restored_folder_with_other_times_and_a_few_changes_is_the_same_directory(
    catalog: Catalog, corpus: Corpus, photos: Library, tmp_path: Path
) -> None:
    shutil.copytree(photos.folder, tmp_path / "elsewhere", copy_function=shutil.copyfile)
    shutil.rmtree(photos.folder)
    (tmp_path / "elsewhere" / "00.jpg").write_bytes(b"Picture 0")  # edited since: as large as before
    (tmp_path / "elsewhere" / "another.jpg").write_bytes(b"new since")
    moved, _ = follow(catalog, corpus, tmp_path / "elsewhere")
    assert moved is not None
    photos.look(tmp_path / "elsewhere")
    assert photos.counts == {"touched": COUNT - 1, "changed": 1, "new": 1}


def test_a_directory_inside_a_moved_one_moves_with_it(
    catalog: Catalog, corpus: Corpus, photos: Library, tmp_path: Path
) -> None:
    (photos.folder / "inner").mkdir()
    photos.write("inner/own", b"a picture of its own directory")
    inner = catalog.ensure_root(corpus.corpus_id, str(photos.folder / "inner"))
    photos.look()
    before = ids(catalog)
    photos.folder.rename(tmp_path / "photos2")
    moved, doubts = follow(catalog, corpus, tmp_path / "photos2")
    assert (moved is not None, doubts) == (True, [])
    assert catalog.root(inner.root_id).path == str(tmp_path / "photos2" / "inner")
    assert {key.replace("/photos2/", "/photos/"): value for key, value in ids(catalog).items()} == before
    photos.look(tmp_path / "photos2")
    assert photos.counts == {"unchanged": COUNT + 1}


def test_a_copy_beside_the_directory_is_another_directory(
    catalog: Catalog, corpus: Corpus, photos: Library, tmp_path: Path
) -> None:
    shutil.copytree(photos.folder, tmp_path / "copy")
    assert follow(catalog, corpus, tmp_path / "copy") == (None, [])
    other = catalog.ensure_corpus("other")
    shutil.rmtree(photos.folder)
    assert follow(catalog, other, tmp_path / "copy") == (None, [])


def test_another_folder_with_the_same_names_and_sizes_is_another_directory(
    catalog: Catalog, corpus: Corpus, photos: Library, tmp_path: Path
) -> None:
    photos.folder.rename(tmp_path / "photos2")
    for path in (tmp_path / "photos2").rglob("*.jpg"):
        path.write_bytes(path.read_bytes()[::-1])
    assert follow(catalog, corpus, tmp_path / "photos2") == (None, [])


def test_where_only_a_part_is_there_the_command_is_named(
    catalog: Catalog, corpus: Corpus, photos: Library, tmp_path: Path
) -> None:
    photos.folder.rename(tmp_path / "photos2")
    shutil.rmtree(tmp_path / "photos2" / "sub")
    moved, (doubt,) = follow(catalog, corpus, tmp_path / "photos2")
    assert moved is None
    assert f"lodestone directory relocate {str(tmp_path / 'photos')!r} {str(tmp_path / 'photos2')!r}" in doubt
    assert "10 of its 20 pictures" in doubt


def test_of_two_vanished_directories_that_fit_neither_is_taken(
    catalog: Catalog, corpus: Corpus, photos: Library, tmp_path: Path
) -> None:
    shutil.copytree(photos.folder, tmp_path / "copy")
    photos.look(photos.folder, tmp_path / "copy")
    photos.folder.rename(tmp_path / "photos2")
    shutil.rmtree(tmp_path / "copy")
    moved, doubts = follow(catalog, corpus, tmp_path / "photos2")
    assert (moved, len(doubts)) == (None, 2)


def test_a_directory_on_a_disk_that_is_not_mounted_has_not_moved(
    catalog: Catalog, corpus: Corpus, photos: Library, tmp_path: Path
) -> None:
    mounts = Mounts()
    mounts._points[str(photos.folder)] = str(tmp_path / "not-mounted")
    photos.folder.rename(tmp_path / "photos2")
    assert follow(catalog, corpus, tmp_path / "photos2", mounts) == (None, [])


def test_an_enclosed_folder_is_compared_inside_its_boundaries(
    catalog: Catalog, corpus: Corpus, photos: Library, tmp_path: Path
) -> None:
    photos.folder.rename(tmp_path / "secret")
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed" / "photos").symlink_to(tmp_path / "secret")
    boundaries = Boundaries((str(tmp_path / "allowed"),))
    found = follow_moved_root(catalog, corpus, tmp_path / "allowed" / "photos", boundaries=boundaries, mounts=Mounts())
    assert found == (None, [])
    (root,) = catalog.roots()
    assert not holds_any(catalog, root, tmp_path / "allowed" / "photos", boundaries)
    assert holds_any(catalog, root, tmp_path / "secret", boundaries)


@pytest.mark.parametrize("inside", ["", "archive"])
def test_pictures_that_were_indexed_anew_give_way_to_those_that_moved(
    catalog: Catalog, corpus: Corpus, photos: Library, tmp_path: Path, inside: str
) -> None:
    before, (root,) = ids(catalog), catalog.roots()
    tagged = before[f"{photos.folder}/00.jpg"]
    catalog.add_tags([TagRecord.new(tagged, "old words", "user")])
    new = tmp_path / "new" / inside
    new.parent.mkdir(exist_ok=True)
    photos.folder.rename(new)
    (new / "02.jpg").write_bytes(b"edited after the move")
    (new / "04.jpg").unlink()
    if inside:
        (tmp_path / "new" / "beside.jpg").write_bytes(b"beside")
    photos.look(tmp_path / "new")  # as an older version did: every picture is there twice
    doubled = ids(catalog)
    assert len(doubled) == 2 * COUNT - 1 + bool(inside)
    catalog.add_tags([TagRecord.new(doubled[f"{new}/00.jpg"], "new words", "user", query_id="q")])
    (target,) = [one for one in catalog.roots() if one.root_id != root.root_id]
    assert merge_root(catalog, root, target, inside) == COUNT - 2
    after = ids(catalog)
    for key, image_id in before.items():
        place = key.replace(str(photos.folder), str(new))
        if place.endswith(("/02.jpg", "/04.jpg")):
            assert after.get(place) == doubled.get(place)
        else:
            assert after[place] == image_id
    assert sorted(tag.text for tag in catalog.tags([tagged])[tagged]) == ["new words", "old words"]
    assert len(after) == COUNT - 1 + bool(inside)
    photos.look(tmp_path / "new")
    assert photos.counts["unchanged"] == COUNT - 1 + bool(inside)


def test_a_directory_without_pictures_left_goes_with_its_merge(
    catalog: Catalog, corpus: Corpus, photos: Library, tmp_path: Path
) -> None:
    (root,) = catalog.roots()
    shutil.move(photos.folder, tmp_path / "photos2")
    photos.look(tmp_path / "photos2")
    (target,) = [one for one in catalog.roots() if one.root_id != root.root_id]
    assert merge_root(catalog, root, target, "") == COUNT
    assert [one.root_id for one in catalog.roots()] == [target.root_id]


def test_an_empty_directory_at_the_new_path_goes_and_another_one_does_not(
    catalog: Catalog, corpus: Corpus, photos: Library, tmp_path: Path
) -> None:
    (root,) = catalog.roots()
    empty = catalog.ensure_root(corpus.corpus_id, str(tmp_path / "empty"))
    assert catalog.relocate_root(root.root_id, empty.path).path == empty.path
    assert [one.root_id for one in catalog.roots()] == [root.root_id]
    full = catalog.ensure_root(corpus.corpus_id, str(tmp_path / "full"))
    catalog.add_images([ImageRecord("0" * 36, corpus.corpus_id, full.root_id, "a.jpg", "ab" * 32, 1, 1, ImageState.PENDING)])
    with pytest.raises(Exception, match=r"(?i)unique|already"):
        catalog.relocate_root(root.root_id, full.path)


def test_a_folder_with_one_of_twenty_pictures_is_another_directory(
    catalog: Catalog, corpus: Corpus, photos: Library, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "00.jpg").write_bytes(b"picture 0")
    shutil.rmtree(photos.folder)
    assert follow(catalog, corpus, tmp_path / "other") == (None, [])
