"""As few paths are indexed as will do for a change, and orders of one corpus become one."""

from __future__ import annotations

from pathlib import Path

import pytest

from lodestone.directories.queue import IndexOrder, outermost
from lodestone.directories.watch import concerns, to_index


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("a.jpg", "sub/b.jpg", "sub/deep/c.jpg", "sub/deep/c.txt", "empty/notes.pdf"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (["a.jpg"], ["a.jpg"]),  # new or changed: alone
        (["sub/deep/c.jpg", "a.jpg"], ["a.jpg", "sub/deep/c.jpg"]),
        (["sub/gone.jpg"], ["sub"]),  # gone: noticed by looking through its folder
        (["sub/gone/x.jpg"], ["sub"]),  # with its folder
        (["gone.jpg", "sub/b.jpg"], ["."]),
        (["sub"], ["sub"]),  # a folder that was moved here
        (["sub", "sub/deep/c.jpg"], ["sub"]),
        (["sub/deep/c.txt"], ["sub/deep"]),  # captions
        (["empty/notes.pdf"], []),
        (["empty"], []),
        (["empty/gone.jpg"], ["."]),  # no picture is left there: from the next folder that has some
        ([".hidden/x.jpg", "sub/.x.jpg", "@eaDir/x.jpg"], []),
        (["sub/copy.jpg.part", "sub/copy.jpg.tmp", "x.tmp", "y.crdownload"], []),
        (["../outside.jpg"], []),
        ([], []),
    ],
)
def test_as_little_as_will_do_is_indexed(root: Path, changed: list[str], expected: list[str]) -> None:
    paths = [root / name if not name.startswith("..") else root.parent / "outside.jpg" for name in changed]
    wanted = [str(root) if name == "." else str(root / name) for name in expected]
    assert list(to_index(root, paths)) == wanted


def test_a_burst_looks_through_the_whole_directory(root: Path) -> None:
    assert to_index(root, [root / f"{number}.jpg" for number in range(11)], burst=10) == (str(root),)


def test_a_directory_without_any_picture_left_is_left_alone(tmp_path: Path) -> None:
    assert to_index(tmp_path, [tmp_path / "gone.jpg"]) == ()
    assert to_index(tmp_path, [tmp_path / f"{number}.jpg" for number in range(11)], burst=10) == ()


def test_only_what_lies_below_the_directory_concerns_it(tmp_path: Path) -> None:
    assert concerns(tmp_path, tmp_path / "a b" / "c.JPG")
    assert not concerns(tmp_path, tmp_path.parent / "c.jpg")


def test_orders_of_one_corpus_become_one_and_others_do_not() -> None:
    first = IndexOrder("photos", ("/a/x.jpg", "/b"), reason="watched")
    joined = first.joined(IndexOrder("photos", ("/a", "/b/c"), reason="asked"))
    assert joined is not None
    assert (joined.paths, joined.reason) == (("/a", "/b"), "watched")
    assert first.joined(IndexOrder("others", ("/a",))) is None
    assert first.joined(IndexOrder("photos", ("/a",), retry_failed=True)) is None
    resumed = IndexOrder("photos", (), resume=True)
    assert resumed.joined(resumed) == resumed
    assert resumed.joined(first) == IndexOrder("photos", ("/a/x.jpg", "/b"), reason="asked")  # which finishes what is left, too


def test_paths_inside_others_are_left_out() -> None:
    assert outermost(["/a/b", "/a", "/ab", "s3://bucket/a"]) == ("/a", "/ab", "s3://bucket/a")
