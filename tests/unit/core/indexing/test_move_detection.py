"""Contents keep their ids when files are moved, swapped, overwritten, copied or touched."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.library import Library
from tests.support.pictures import jpeg_bytes

from lodestone.catalog.catalog import Catalog
from lodestone.catalog.records import CaptionRecord, ImageState
from lodestone.indexing.scan import move_detection
from lodestone.indexing.scan.changes import ChangeFinder

CONTENTS = {name: jpeg_bytes((40, 30), seed=seed) for seed, name in enumerate("abcd")}


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    (tmp_path / "photos").mkdir()
    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        made = Library(catalog, tmp_path / "photos")
        for number, (name, content) in enumerate(CONTENTS.items()):
            made.write(name, content)
            os.utime(made.path(name), (1_000_000 + number, 1_000_000 + number))
        assert made.look() == {name: name for name in "abcd"}
        yield made


def test_two_files_that_swap_names_keep_their_ids(library: Library) -> None:
    library.move("a", "x")
    library.move("b", "a")
    library.move("x", "b")
    assert library.look() == {"a": "b", "b": "a", "c": "c", "d": "d"}
    assert library.counts == {"moved": 2, "unchanged": 2}
    assert {uri: image.hash for uri, image in library.images().items()}.keys() == {"a.jpg", "b.jpg", "c.jpg", "d.jpg"}
    assert library.look() == {"a": "b", "b": "a", "c": "c", "d": "d"}
    assert library.counts == {"unchanged": 4}


def test_a_series_that_is_numbered_anew_keeps_its_ids(library: Library) -> None:
    library.move("d", "e")
    for source, target in ("cd", "bc", "ab"):
        library.move(source, target)
    assert library.look() == {"b": "a", "c": "b", "d": "c", "e": "d"}
    assert library.counts == {"moved": 4, "gone": 1}
    library.move("b", "a")
    for source, target in ("cb", "dc", "ed"):
        library.move(source, target)
    assert library.look() == {name: name for name in "abcd"}


def test_a_file_moved_over_another_brings_its_id_and_the_other_is_forgotten(library: Library) -> None:
    library.move("a", "b")
    assert library.look() == {"b": "a", "c": "c", "d": "d"}
    assert library.counts == {"gone": 2, "moved": 1, "unchanged": 2}
    library.write("again", CONTENTS["b"])
    assert library.look()["again"] == "new"


def test_a_new_file_in_the_place_of_one_that_swapped_gets_an_id_of_its_own(library: Library) -> None:
    library.move("a", "b")  # over b
    library.write("a", b"something new")
    assert library.look() == {"a": "new", "b": "a", "c": "c", "d": "d"}
    assert library.counts == {"moved": 1, "new": 1, "gone": 1, "unchanged": 2}


def test_an_edited_file_keeps_its_id_although_a_copy_of_what_it_was_lies_beside_it(library: Library) -> None:
    shutil.copy2(library.path("a"), library.path("a-original"))
    library.write("a", b"edited")
    assert library.look() == {"a": "a", "a-original": "new", "b": "b", "c": "c", "d": "d"}
    assert library.counts == {"changed": 1, "new": 1, "unchanged": 3}


def test_a_series_that_is_numbered_anew_over_a_gap_keeps_its_ids(library: Library) -> None:
    library.path("a").unlink()
    library.look()
    for source, target in ("ba", "cb", "dc"):
        library.move(source, target)
    assert library.look() == {"a": "b", "b": "c", "c": "d"}
    assert library.counts == {"moved": 3, "gone": 1}
    assert library.look() == {"a": "b", "b": "c", "c": "d"}
    assert library.counts == {"unchanged": 3}


def test_a_new_file_in_the_place_of_a_deleted_one_continues_it(library: Library) -> None:
    library.path("a").unlink()
    library.look()
    library.write("a", b"something new")
    assert library.look() == {name: name for name in "abcd"}
    assert library.counts == {"changed": 1, "unchanged": 3}


def test_a_deleted_picture_that_is_put_back_under_another_name_keeps_its_id_though_a_new_file_has_its_place(
    library: Library,
) -> None:
    library.path("a").unlink()
    library.look()
    library.write("a", b"something new")
    library.write("z", CONTENTS["a"])
    assert library.look() == {"a": "new", "b": "b", "c": "c", "d": "d", "z": "a"}


def test_an_edit_to_what_another_picture_was_long_ago_is_an_edit(library: Library) -> None:
    edited = library.images()["a.jpg"].image_id
    library.path("b").unlink()
    library.look()
    library.write("a", CONTENTS["b"])
    assert library.look() == {"a": "a", "c": "c", "d": "d"}
    assert library.counts == {"changed": 1, "unchanged": 2}
    assert library.catalog.images([edited])[edited].state is not ImageState.GONE


@pytest.mark.parametrize("before", ["update_images", "gone_by_hash", "add_images"])
def test_a_run_that_is_killed_while_pictures_change_places_is_made_good_by_the_next(
    library: Library, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    library.path("a").unlink()
    for source, target in ("ba", "cb", "dc"):
        library.move(source, target)
    library.write("d", b"something new")
    exchange = ChangeFinder._exchange

    def killed(finder: ChangeFinder, corpus_id: str) -> None:
        def die(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(Catalog, before, die)
            exchange(finder, corpus_id)

    with monkeypatch.context() as patched:
        patched.setattr(ChangeFinder, "_exchange", killed)
        with pytest.raises(KeyboardInterrupt):
            library.look()
    assert library.look() == {"a": "b", "b": "c", "c": "d", "d": "new"}


def test_a_run_that_is_killed_after_it_found_what_is_new_and_gone_is_made_good_by_the_next(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A series moved by one: the last is new to the killed run, which also finds `x` gone, where `a` is overwritten with it."""
    library.write("x", b"x")
    library.names.clear()
    library.look()
    for source, target in ("de", "cd", "bc", "ab", "xa"):
        library.move(source, target)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ChangeFinder, "_exchange", die)
        with pytest.raises(KeyboardInterrupt):
            library.look()
    assert library.look() == {"a": "x", "b": "a", "c": "b", "d": "c", "e": "d"}
    assert library.counts == {"moved": 5}


def test_what_was_entered_about_a_picture_stays_with_it_when_it_swaps(library: Library) -> None:
    before = library.images()
    library.catalog.set_captions(
        {before["a.jpg"].image_id: [CaptionRecord(before["a.jpg"].image_id, "table", "the first")]}, sources=["table"]
    )
    library.path("b").with_suffix(".txt").write_text("beside b")
    library.move("a", "x")
    library.move("b", "a")
    library.move("x", "b")
    library.look()
    after = library.images()["b.jpg"]
    captions = library.catalog.captions([after.image_id])[after.image_id]
    assert sorted((caption.source, caption.text) for caption in captions) == [("sidecar", "beside b"), ("table", "the first")]


def test_more_files_than_may_wait_are_taken_for_edited(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move_detection, "MOST", 1)
    library.move("a", "x")
    library.move("b", "a")
    library.move("x", "b")
    assert library.look() == {"a": "a", "b": "b", "c": "c", "d": "d"}
    assert library.counts == {"changed": 2, "unchanged": 2}


def test_of_two_equal_files_the_one_is_moved_whose_name_was_kept(library: Library) -> None:
    for name in ("one/x", "two/y"):
        library.path(name).parent.mkdir()
        library.write(name, b"the same")
    library.names.clear()
    library.look()
    library.move("one/x", "z/x")
    library.move("two/y", "k/y")
    assert {uri: name for uri, name in library.look().items() if "/" in uri} == {"k/y": "two/y", "z/x": "one/x"}


def test_a_file_that_is_there_and_back_between_runs_or_only_touched_is_the_same(library: Library) -> None:
    library.move("a", "x")
    library.move("x", "a")
    os.utime(library.path("b"), (5, 5))  # older than before: a clock that went backwards
    os.utime(library.path("c"), (2**33, 2**33))
    assert library.look() == {name: name for name in "abcd"}
    assert library.counts == {"touched": 2, "unchanged": 2}


def test_what_moves_to_another_directory_and_back_keeps_its_id(library: Library, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    shutil.move(library.path("a"), tmp_path / "other" / "a.jpg")
    assert library.look(library.folder, tmp_path / "other")["a"] == "a"
    shutil.move(tmp_path / "other" / "a.jpg", library.path("a"))
    (tmp_path / "other" / "b.jpg").write_bytes(CONTENTS["b"])
    assert library.look(library.folder, tmp_path / "other")["a"] == "a"


def test_a_picture_with_other_content_leaves_its_group_of_copies(library: Library) -> None:
    library.write("e", CONTENTS["a"])
    library.look()
    corpus = library.catalog.ensure_corpus("c").corpus_id
    ids = {uri: image.image_id for uri, image in library.images().items()}
    assert library.catalog.find_exact_duplicates(corpus) == 2
    library.catalog.put_duplicates("near", corpus, [[(ids["a.jpg"], 0.0), (ids["b.jpg"], 0.1), (ids["c.jpg"], 0.1)]])
    library.write("a", b"edited")
    library.look()
    assert ids["a.jpg"] not in library.catalog.duplicate_groups(ids.values())
    library.move("b", "x")
    library.look()
    assert ids["b.jpg"] in library.catalog.duplicate_groups(ids.values())


def test_the_same_folder_by_a_link_is_the_same_part_of_the_directory(library: Library) -> None:
    library.path("sub/e").parent.mkdir()
    library.write("sub/e", b"e")
    library.look()
    link = library.folder.with_name("link")
    link.symlink_to(library.folder)
    before = library.images().keys()
    library.look(link)
    assert library.counts == {"unchanged": 5}
    library.look(link / "sub")
    assert library.counts == {"unchanged": 1}
    library.look(link / "a.jpg")
    assert library.counts == {"unchanged": 1}
    assert library.images().keys() == before
    assert [root.path for root in library.catalog.roots()] == [str(library.folder)]


def test_two_paths_to_one_folder_in_one_run_are_one(library: Library) -> None:
    library.path("sub/e").parent.mkdir()
    library.write("sub/e", b"e")
    library.names.clear()
    library.look()
    link = library.folder.with_name("link")
    link.symlink_to(library.folder)
    everything = [link / "sub", link / "a.jpg", library.folder, link]
    library.move("a", "x")
    library.move("b", "a")
    library.move("x", "b")
    library.write("f", b"f")
    assert library.look(*everything) == {"a": "b", "b": "a", "c": "c", "d": "d", "f": "new", "sub/e": "sub/e"}
    assert library.counts == {"moved": 2, "new": 1, "unchanged": 3}
    library.look(link / "sub", library.path("a"), link / "a.jpg", library.path("sub/e"))
    assert library.counts == {"unchanged": 2}


def test_a_file_moved_where_a_copy_was_deleted_long_ago_keeps_its_id(library: Library) -> None:
    shutil.copy2(library.path("a"), library.path("e"))
    library.look()
    library.path("e").unlink()
    library.look()
    library.move("a", "e")
    assert library.look() == {"e": "a", "b": "b", "c": "c", "d": "d"}
    assert library.counts == {"moved": 1, "gone": 1, "unchanged": 3}


def test_an_archive_counts_as_listed_when_all_that_was_in_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pack(seeds: list[int], at: int) -> None:
        with tarfile.open(tmp_path / "x.tar", "w") as archive:
            for seed, name in zip(seeds, "abc", strict=True):
                content = jpeg_bytes((16, 12), seed=seed)
                entry = tarfile.TarInfo(f"{name}.jpg")
                entry.size, entry.mtime = len(content), at
                archive.addfile(entry, io.BytesIO(content))
        os.utime(tmp_path / "x.tar", (at, at))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        library = Library(catalog, tmp_path)
        pack([1, 2, 3], at=1000)
        library.look(tmp_path / "x.tar")
        before = {uri: image.hash for uri, image in library.images().items()}
        pack([1, 2, 9], at=2000)
        with monkeypatch.context() as patch:
            patch.setattr(ChangeFinder, "_exchange", killed)
            with pytest.raises(KeyboardInterrupt):
                library.look(tmp_path / "x.tar")
        library.look(tmp_path / "x.tar")
        after = {uri: image.hash for uri, image in library.images().items()}
    assert [before[uri] == after[uri] for uri in sorted(before)] == [True, True, False]
