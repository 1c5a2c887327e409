"""Which files are pictures: by the names that everybody uses, and by their first bytes where the name does not say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.archives import write_tar
from tests.support.pictures import encoded, jpeg_bytes, photo

from lodestone.catalog.catalog import Catalog
from lodestone.directories.watch import to_index
from lodestone.sources import file_kinds, folders
from lodestone.sources.exclusion import Exclusion
from lodestone.sources.file_kinds import kind_of_file, kind_of_name
from lodestone.sources.folders import discover


def listed(folder: Path) -> tuple[set[str], dict[str, int]]:
    exclusion = Exclusion(str(folder))
    return {file.uri for file in discover(folder, exclusion=exclusion)}, dict(exclusion.counts)


def test_a_picture_is_known_by_its_content_where_its_name_does_not_say(tmp_path: Path) -> None:
    names = ("none", "a.jpg_large", "b.jpg~", "c.mpo", "d.jpg_original", "e.JPG.1", "f.unknown")
    for number, name in enumerate(names):
        (tmp_path / name).write_bytes(jpeg_bytes(seed=number))
    (tmp_path / "png").write_bytes(encoded(photo(), "PNG"))
    (tmp_path / "gif.dat").write_bytes(encoded(photo(), "GIF"))
    assert listed(tmp_path) == ({*names, "png", "gif.dat"}, {})


def test_what_is_no_picture_is_counted_by_kind(tmp_path: Path) -> None:
    for name in ("a.mp4", "b.MOV", "c.pdf", "d.mp3", "e.xmp", "f.txt", "g.zip", "h.jpg.part", "i.crdownload"):
        (tmp_path / name).write_bytes(jpeg_bytes())  # a film's name is believed, whatever it holds
    (tmp_path / "notes").write_bytes(b"BMW is a car maker, and this is text")
    (tmp_path / "empty").touch()
    (tmp_path / "program.xyz").write_bytes(b"\x7fELF")
    (tmp_path / "drawing").write_bytes(b"%PDF-1.7")
    (tmp_path / ".hidden").write_bytes(jpeg_bytes())
    found, counts = listed(tmp_path)
    assert found == set()
    assert counts == {
        "videos": 2,
        "documents": 1,
        "sounds": 1,
        "sidecars": 1,
        "texts": 1,
        "archives": 1,
        "unfinished files": 2,
        "other files": 3,
        "PDF files": 1,
    }


def test_what_is_read_with_its_picture_is_not_counted_as_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(jpeg_bytes())
    beside = ("a.txt", "a.jpg.txt", "a.XMP", "a.jpg.xmp", "a.jpg.json", "a.jpg.supplemental-metadata.json")
    apart = ("b.txt", "a.jpg.old.xmp", "a.old.txt", "a.pdf", "a.aae", "b.json")
    for name in (*beside, *apart):
        (tmp_path / name).write_text("two dogs")
    assert listed(tmp_path) == ({"a.jpg"}, {"texts": 2, "sidecars": 3, "documents": 1})


def test_only_files_whose_names_say_nothing_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.jpg", "b.mp4", "c.txt", "unknown", "left-out"):
        (tmp_path / name).write_bytes(jpeg_bytes())
    (tmp_path / ".lodestoneignore").write_text("left-out\n")
    opened = []

    def counting(path: str, within: object = None) -> object:
        opened.append(os.path.basename(path))  # noqa: PTH119
        return original(path, within)  # type: ignore[arg-type]

    original = file_kinds.open_file
    monkeypatch.setattr(file_kinds, "open_file", counting)
    assert listed(tmp_path)[0] == {"a.jpg", "unknown"}
    assert opened == ["unknown"]


def test_a_folder_a_link_and_a_pipe_are_no_files_of_a_kind(tmp_path: Path) -> None:
    (tmp_path / "films.mp4").mkdir()
    (tmp_path / "films.mp4" / "a.jpg").write_bytes(jpeg_bytes())
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    assert listed(tmp_path) == ({"films.mp4/a.jpg"}, {})


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_and_has_no_known_name_is_counted(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(jpeg_bytes())
    (tmp_path / "secret").chmod(0)
    assert listed(tmp_path) == (set(), {"files that cannot be read": 1})


def test_a_file_that_vanishes_is_counted_as_unreadable(tmp_path: Path) -> None:
    assert kind_of_file(tmp_path / "gone") == "files that cannot be read"
    assert kind_of_file(tmp_path / "gone.jpg") == "pictures"
    assert [kind_of_name(name) for name in ("a.JPG", "a", "a.jpg.part", "a.mkv", "a.jpg~")] == [
        "pictures",
        "files of unknown names",
        "unfinished files",
        "videos",
        "files of unknown names",
    ]


def test_the_watcher_orders_a_picture_without_a_pictures_name(tmp_path: Path) -> None:
    (tmp_path / "copy.jpg~").write_bytes(jpeg_bytes())
    (tmp_path / "notes").write_text("words")
    assert to_index(tmp_path, [tmp_path / "copy.jpg~", tmp_path / "notes"]) == (str(tmp_path / "copy.jpg~"),)


def test_pictures_in_archives_are_known_by_their_content_too(tmp_path: Path) -> None:
    from tests.unit.core.indexing.test_changes import Indexed

    picture = jpeg_bytes(seed=4)
    members = {
        "a": picture,
        "b.bin": b"no picture",
        "c.cls": b"7",
        "d.jpg_large": jpeg_bytes(seed=5),
        "e.mp4": picture,
        "a.txt": b"words",
    }
    write_tar(tmp_path / "data" / "x.tar", members)
    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        indexed = Indexed(catalog)
        indexed.list(tmp_path / "data")
        images = indexed.images()
    assert images.keys() == {"x.tar/a", "x.tar/d.jpg_large"}
    assert images["x.tar/a"].hash == folders.hash_bytes(picture)
    assert images["x.tar/a"].size == len(picture)
