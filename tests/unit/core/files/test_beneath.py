"""A file that is opened below a folder lies there, whatever links are in its way, and whenever they are put there."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from lodestone.files.beneath import MAX_LINKS, OUTSIDE, Boundaries, Enclosure, open_file, status_of


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder `allowed` with two sub-folders, and a secret beside it."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "x.jpg").write_bytes(b"secret")
    (tmp_path / "allowed" / "photos").mkdir(parents=True)
    (tmp_path / "allowed" / "more").mkdir()
    (tmp_path / "allowed" / "more" / "x.jpg").write_bytes(b"fine")
    return tmp_path


def within(place: Path, *, links: bool = True) -> Enclosure:
    return Enclosure(str(place / "allowed"), str(place / "allowed" / "photos"), links=links)


def content(path: Path, enclosure: Enclosure | None) -> bytes:
    with open_file(path, enclosure) as file:
        return file.read()


@pytest.mark.parametrize(
    "target", ["{place}/secret/x.jpg", "../../secret/x.jpg", "../more/../../secret/x.jpg", "/etc/hostname"]
)
def test_a_link_out_of_the_folder_is_not_followed(place: Path, target: str) -> None:
    link = place / "allowed" / "photos" / "x.jpg"
    link.symlink_to(target.format(place=place))
    with pytest.raises(OSError, match="leads out of the folder") as caught:
        open_file(link, within(place))
    assert caught.value.errno == OUTSIDE


@pytest.mark.parametrize("target", ["{place}/allowed/more/x.jpg", "../more/x.jpg", "./../more/./x.jpg", "link"])
def test_a_link_inside_the_folder_is_followed_if_links_are(place: Path, target: str) -> None:
    (place / "allowed" / "photos" / "link").symlink_to("../more/x.jpg")
    link = place / "allowed" / "photos" / "x.jpg"
    link.symlink_to(target.format(place=place))
    assert content(link, within(place)) == b"fine"
    with pytest.raises(OSError, match="leads out"):
        open_file(link, within(place, links=False))


@pytest.mark.parametrize("target", ["{place}/secret", "../../secret"])
def test_a_folder_that_has_become_a_link_is_not_entered(place: Path, target: str) -> None:
    (place / "allowed" / "photos" / "2024").symlink_to(target.format(place=place))
    with pytest.raises(OSError, match="leads out"):
        open_file(place / "allowed" / "photos" / "2024" / "x.jpg", within(place))


def test_the_root_itself_may_not_become_a_link_out_of_the_folder(place: Path) -> None:
    (place / "allowed" / "photos").rmdir()
    (place / "allowed" / "photos").symlink_to(place / "secret")
    for links in (True, False):
        with pytest.raises(OSError, match="leads out"):
            open_file(place / "allowed" / "photos" / "x.jpg", within(place, links=links))
    (place / "allowed" / "photos").unlink()
    (place / "allowed" / "photos").symlink_to("more")
    assert content(place / "allowed" / "photos" / "x.jpg", within(place, links=False)) == b"fine"


def test_a_root_may_be_a_single_file(place: Path) -> None:
    file = place / "allowed" / "more" / "x.jpg"
    assert content(file, Enclosure(str(place / "allowed"), str(file), links=False)) == b"fine"
    file.unlink()
    file.symlink_to(place / "secret" / "x.jpg")
    with pytest.raises(OSError, match="leads out"):
        open_file(file, Enclosure(str(place / "allowed"), str(file)))


def test_a_path_that_names_another_folder_is_refused_without_looking_at_it(place: Path) -> None:
    for path in (place / "secret" / "x.jpg", place / "nowhere", Path(f"{place}/allowed/../secret/x.jpg")):
        with pytest.raises(OSError, match="leads out"):
            open_file(path, within(place))


def test_the_folder_may_be_named_by_a_link_of_its_owner(place: Path) -> None:
    (place / "named").symlink_to("allowed")
    file = place / "named" / "photos" / "x.jpg"
    file.write_bytes(b"fine")
    enclosure = Enclosure(str(place / "named"), str(place / "named" / "photos"))
    assert content(file, enclosure) == content(place / "allowed" / "photos" / "x.jpg", enclosure) == b"fine"
    (place / "named" / "photos" / "link.jpg").symlink_to(place / "allowed" / "more" / "x.jpg")
    assert content(place / "named" / "photos" / "link.jpg", enclosure) == b"fine"


def test_links_in_a_circle_end(place: Path) -> None:
    (place / "allowed" / "photos" / "x.jpg").symlink_to("y.jpg")
    (place / "allowed" / "photos" / "y.jpg").symlink_to("x.jpg")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        open_file(place / "allowed" / "photos" / "x.jpg", within(place))
    for number in range(MAX_LINKS - 1):
        (place / "allowed" / "photos" / f"{number}.jpg").symlink_to(f"{number + 1}.jpg")
    (place / "allowed" / "photos" / f"{MAX_LINKS - 1}.jpg").write_bytes(b"fine")
    assert content(place / "allowed" / "photos" / "0.jpg", within(place)) == b"fine"


@pytest.mark.parametrize("enclosed", [True, False])
def test_a_pipe_or_a_folder_is_no_file_and_does_not_block(place: Path, *, enclosed: bool) -> None:
    os.mkfifo(place / "allowed" / "photos" / "x.jpg")
    (place / "allowed" / "photos" / "y.jpg").mkdir()
    for name in ("x.jpg", "y.jpg"):
        with pytest.raises(OSError, match="no regular file"):
            open_file(place / "allowed" / "photos" / name, within(place) if enclosed else None)


def test_what_is_missing_is_missing(place: Path) -> None:
    (place / "allowed" / "photos" / "broken.jpg").symlink_to("nowhere.jpg")
    for name in ("none.jpg", "broken.jpg", "none/x.jpg", "broken.jpg/x.jpg"):
        with pytest.raises(FileNotFoundError):
            open_file(place / "allowed" / "photos" / name, within(place))


def test_a_folder_that_may_be_entered_and_not_listed_is_passed(place: Path) -> None:
    folder = place / "allowed" / "photos" / "drop"
    folder.mkdir()
    (folder / "x.jpg").write_bytes(b"fine")
    folder.chmod(0o111)
    try:
        assert content(folder / "x.jpg", within(place)) == b"fine"
    finally:
        folder.chmod(0o755)


def test_no_descriptor_is_left_open(place: Path) -> None:
    (place / "allowed" / "photos" / "x.jpg").symlink_to("/etc/hostname")
    (place / "allowed" / "photos" / "y.jpg").symlink_to(place / "allowed" / "more" / "x.jpg")
    before = sum(1 for _ in Path("/dev/fd").iterdir())
    for _ in range(20):
        with pytest.raises(OSError, match="leads out"):
            open_file(place / "allowed" / "photos" / "x.jpg", within(place))
        assert content(place / "allowed" / "photos" / "y.jpg", within(place)) == b"fine"
        assert status_of(place / "allowed" / "photos" / "y.jpg", within(place)).st_size == 4
    assert sum(1 for _ in Path("/dev/fd").iterdir()) == before


def test_a_folder_that_is_swapped_for_a_link_again_and_again_never_gives_the_secret(place: Path) -> None:
    photos = place / "allowed" / "photos"
    (photos / "2024").mkdir()
    (photos / "2024" / "x.jpg").write_bytes(b"fine")
    (photos / "link").symlink_to(place / "secret")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            (photos / "2024").rename(photos / "away")
            (photos / "link").rename(photos / "2024")
            (photos / "2024").rename(photos / "link")
            (photos / "away").rename(photos / "2024")

    thread = threading.Thread(target=swap)
    thread.start()
    read: list[bytes] = []
    refused = 0
    try:
        for _ in range(2_000):
            try:
                read.append(content(photos / "2024" / "x.jpg", within(place)))
            except OSError:
                refused += 1
    finally:
        done.set()
        thread.join()
    assert set(read) <= {b"fine"}
    assert len(read) + refused == 2_000


def test_roots_are_enclosed_by_the_smallest_folder_around_them() -> None:
    boundaries = Boundaries(("/srv", "/srv/a"))
    assert boundaries.around("/srv/a/photos") == Enclosure("/srv/a", "/srv/a/photos")
    assert boundaries.around("/srv/b") == Enclosure("/srv", "/srv/b")
    assert boundaries.around("/srvx") is None
    assert Boundaries(("/srv",), follow_symlinks=False).around("/home/me") == Enclosure("/home/me", "/home/me", links=False)
    assert Boundaries((), follow_symlinks=False).around("/home/me", is_folder=False) is None
