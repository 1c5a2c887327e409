"""Finding pictures below a folder: names, order, links, what is skipped and what is reported."""

import os
import socket
import sys
from pathlib import Path

import blake3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import pictures

from lodestone.errors import ImageError, NotFoundError
from lodestone.sources.folders import UnreadablePath, discover, hash_bytes, hash_file, hash_files
from lodestone.sources.uris import folders_of, name_of, path_of, relative_path_of, uri_of


def _uris(root: Path, **options: bool) -> list[str]:
    return [file.uri for file in discover(root, **options)]


def _touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def test_pictures_come_sorted_within_each_folder_files_before_folders(tmp_path):
    _touch(*(tmp_path / name for name in ("b/2.jpg", "b/1.png", "a/z/deep.webp", "a/9.gif", "top.JPEG", "Zed.bmp", "c.heic")))
    assert _uris(tmp_path) == ["Zed.bmp", "c.heic", "top.JPEG", "a/9.gif", "a/z/deep.webp", "b/1.png", "b/2.jpg"]


def test_found_file_carries_what_the_listing_showed(tmp_path):
    path = pictures.write_photo(tmp_path / "a" / "x.jpg")
    (found,) = discover(tmp_path)
    status = path.stat()
    assert (found.uri, found.path, found.size, found.mtime_ns) == ("a/x.jpg", path, status.st_size, status.st_mtime_ns)
    assert found.inode == (status.st_dev, status.st_ino)


def test_sidecars_videos_hidden_names_and_derived_folders_are_skipped(tmp_path):
    kept = [tmp_path / "keep.jpg", tmp_path / "raw.NEF"]
    skipped = ["note.txt", "film.mp4", ".hidden.jpg", ".git/x.jpg", "@eaDir/thumb.jpg", "a/.thumbnails/x.png", "noextension"]
    _touch(*kept, *(tmp_path / name for name in skipped))
    assert _uris(tmp_path) == ["keep.jpg", "raw.NEF"]


def test_file_with_a_picture_s_extension_and_other_content_is_left_for_decoding_to_refuse(tmp_path):
    pictures.write_bad_files(tmp_path)
    assert {"text.jpg", "empty.jpg"} <= set(_uris(tmp_path))


def test_single_file_is_its_own_root(tmp_path):
    path = pictures.write_photo(tmp_path / "only.jpg")
    assert _uris(path) == ["only.jpg"]


def test_missing_root_is_refused_at_the_call_and_an_empty_one_yields_nothing(tmp_path):
    with pytest.raises(NotFoundError):
        discover(tmp_path / "nowhere")
    assert _uris(tmp_path) == []


def test_root_reached_by_a_link_or_with_dots_gives_the_same_uris(tmp_path):
    _touch(tmp_path / "real" / "a" / "x.jpg")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert _uris(tmp_path / "link") == _uris(tmp_path / "real" / "a" / "..") == ["a/x.jpg"]


def test_symlink_loops_end_and_each_folder_is_visited_once(tmp_path):
    pictures.write_symlink_loops(tmp_path / "loops")
    failures: list[UnreadablePath] = []
    assert [file.uri for file in discover(tmp_path / "loops", on_unreadable=failures.append)] == ["inner/only.jpg"]
    assert failures == []


def test_path_without_links_wins_over_an_earlier_link(tmp_path):
    _touch(tmp_path / "m" / "real" / "x.jpg", tmp_path / "outside" / "y.jpg")
    root = tmp_path / "m"
    (root / "a-link").symlink_to(root / "real")
    (root / "b-link").symlink_to(tmp_path / "outside")
    assert _uris(root) == ["real/x.jpg", "b-link/y.jpg"]


def test_links_can_be_left_alone(tmp_path):
    _touch(tmp_path / "m" / "x.jpg", tmp_path / "outside" / "y.jpg")
    (tmp_path / "m" / "folder").symlink_to(tmp_path / "outside")
    (tmp_path / "m" / "file.jpg").symlink_to(tmp_path / "outside" / "y.jpg")
    assert _uris(tmp_path / "m") == ["file.jpg", "x.jpg", "folder/y.jpg"]
    assert _uris(tmp_path / "m", follow_symlinks=False) == ["x.jpg"]


def test_sockets_and_pipes_named_like_pictures_are_skipped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    os.mkfifo("pipe.jpg")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.jpg")
        assert _uris(tmp_path) == []


def test_unreadable_folder_is_reported_and_the_rest_found(tmp_path, monkeypatch):
    _touch(tmp_path / "closed" / "x.jpg", tmp_path / "open" / "y.jpg")
    scandir = os.scandir

    def refuse(path: str) -> object:  # the tests may run as root, whom no mode keeps out
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    failures: list[UnreadablePath] = []
    assert [file.uri for file in discover(tmp_path, on_unreadable=failures.append)] == ["open/y.jpg"]
    assert [(failure.uri, failure.message) for failure in failures] == [("closed", "Permission denied")]
    with pytest.raises(ImageError):
        discover(tmp_path / "closed")


@pytest.mark.skipif(sys.platform == "darwin", reason="APFS accepts valid UTF-8 names only")
def test_names_in_any_script_and_not_in_utf8_are_found_under_distinct_uris(tmp_path):
    names = pictures.write_strange_names(tmp_path / "names")
    found = list(discover(tmp_path / "names"))
    assert len({file.uri for file in found}) == len(names)
    assert {os.fsencode(relative_path_of(file.uri)) for file in found} == set(names)
    for file in found:
        file.uri.encode("utf-8")  # what JSON, SQL and Arrow need
        assert path_of(tmp_path / "names", file.uri).read_bytes() == file.path.read_bytes()


def test_uri_of_a_name_that_is_not_utf8_is_percent_encoded_bytes():
    uri = uri_of(os.fsdecode(b"a/\xff b.jpg"))
    assert uri == "bytes:a/%FF%20b.jpg"
    assert os.fsencode(relative_path_of(uri)) == b"a/\xff b.jpg"
    assert name_of(uri) == "\ufffd b.jpg"


def test_name_that_begins_with_the_prefix_is_escaped():
    assert uri_of("bytes:%FF.jpg") == "bytes:bytes%3A%25FF.jpg"
    assert uri_of("a/bytes:%FF.jpg") == "a/bytes:%FF.jpg"
    assert uri_of(os.fsdecode(b"\xff.jpg")) != uri_of("bytes:%FF.jpg")


_PATHS = st.lists(
    st.binary(min_size=1, max_size=8).map(lambda part: part.replace(b"/", b"_").replace(b"\0", b"_")), min_size=1, max_size=4
)


@settings(max_examples=200, deadline=None)
@given(_PATHS)
def test_every_path_comes_back_from_its_uri(parts):
    relative = os.fsdecode(b"/".join(parts))
    uri = uri_of(relative)
    assert relative_path_of(uri) == relative
    assert uri_of(relative_path_of(uri)) == uri
    uri.encode("utf-8")


@settings(max_examples=100, deadline=None)
@given(_PATHS)
def test_folders_are_the_uris_of_all_ancestors_from_the_root_down(parts):
    expected = ["", *(uri_of(os.fsdecode(b"/".join(parts[:i]))) for i in range(1, len(parts)))]
    assert list(folders_of(uri_of(os.fsdecode(b"/".join(parts))))) == expected


def test_folders_of_a_file():
    assert folders_of("x.jpg") == ("",)
    assert folders_of("a/b/x.jpg") == ("", "a", "a/b")
    assert folders_of("bytes:ok/%FF.jpg") == ("", "ok")


def test_two_roots_may_hold_the_same_relative_names(tmp_path):
    for root in ("one", "two"):
        _touch(tmp_path / root / "a" / "x.jpg")
    one, two = (next(discover(tmp_path / root)) for root in ("one", "two"))
    assert one.uri == two.uri
    assert one.path != two.path


def test_hashes_are_blake3_of_the_content(tmp_path):
    content = bytes(range(256)) * 10_000
    path = tmp_path / "x.jpg"
    path.write_bytes(content)
    assert hash_file(path) == hash_bytes(content) == blake3.blake3(content).hexdigest()


def test_hashing_many_files_keeps_their_order_and_one_missing_file_costs_no_other(tmp_path):
    paths = [pictures.write_photo(tmp_path / f"{i}.jpg", seed=i, size=(16, 16)) for i in range(20)]
    paths.insert(7, tmp_path / "gone.jpg")
    results = list(hash_files(iter(paths), threads=3))
    assert isinstance(results[7], ImageError)
    assert results[7].details["reason"] == "missing"
    assert results[:7] + results[8:] == [hash_file(path) for path in paths if path.exists()]


def test_folder_of_very_many_files_is_read_some_at_a_time_and_loses_none(tmp_path, monkeypatch):
    names = [f"{number:02}.jpg" for number in range(20)]
    _touch(*(tmp_path / name for name in (*names, "sub/a.jpg")))
    monkeypatch.setattr("lodestone.sources.folders._HELD", 6)
    scandir, handed = os.scandir, []

    class Counted:
        def __init__(self, path):
            self.inner = scandir(path)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.close()

        def __iter__(self):
            return self

        def __next__(self):
            handed.append(entry := next(self.inner))
            return entry

        def close(self):
            self.inner.close()

    monkeypatch.setattr(os, "scandir", Counted)
    found = discover(tmp_path)
    first = next(found).uri
    assert len(handed) == 6
    rest = [file.uri for file in found]
    assert sorted([first, *rest]) == [*names, "sub/a.jpg"]
    assert rest[-1] == "sub/a.jpg"
