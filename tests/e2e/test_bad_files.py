"""One folder with good and bad files of every kind costs nothing but the bad ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.bad_input import run, run_apart
from tests.support.cli import Finished
from tests.support.photos import CAT, photo_path
from tests.support.pictures import (
    huge_jpeg_bytes,
    write_bad_files,
    write_every_format,
    write_photos,
    write_strange_names,
    write_symlink_loops,
)

from lodestone.sources.uris import path_of, uri_of

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Zoo:
    """A folder with good and bad files of every kind, indexed once by the command line."""

    folder: Path
    home: Path
    first: Finished
    good: frozenset[str]
    bad: dict[str, str]  # uri -> failure code
    prefix: tuple[str, ...]

    def index(self, *arguments: str) -> Finished:
        return run_apart(
            "index", self.folder, "--corpus", "zoo", "--output", "json", *arguments, home=self.home, prefix=self.prefix
        )


def _obeying_permissions() -> tuple[str, ...] | None:
    """Words that run a command which file permissions hold for; root is above them unless it gives that up."""
    if os.geteuid() != 0:
        return ()
    rights = "-dac_override,-dac_read_search"
    words = ("setpriv", f"--inh-caps={rights}", f"--bounding-set={rights}")
    works = shutil.which("setpriv") and subprocess.run([*words, "true"], check=False, capture_output=True).returncode == 0
    return words if works else None


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zoo]:
    folder, home = tmp_path_factory.mktemp("pictures") / "zoo", tmp_path_factory.mktemp("zoo-home")
    good = {str(path.relative_to(folder)) for path in write_every_format(folder / "good").values()}
    bad = {
        str(path.relative_to(folder)): code
        for path, code in write_bad_files(folder / "bad", huge=True).values()
        if path.exists()
    }
    (folder / "good" / "huge.jpg").write_bytes(huge_jpeg_bytes())
    good |= {"good/huge.jpg"}
    names = write_strange_names(folder / "names", invalid_utf8=sys.platform == "linux")
    good |= {uri_of(f"names/{os.fsdecode(name)}") for name in names}
    write_symlink_loops(folder / "loops")
    good |= {"loops/inner/only.jpg"}
    (folder / "a folder.jpg").mkdir()
    shutil.copy(photo_path(CAT), folder / "a folder.jpg" / "cat.png")
    good |= {"a folder.jpg/cat.png"}
    os.mkfifo(folder / "pipe.jpg")  # reading it would never end: not a picture, not a failure
    if Path("/proc/self/mem").exists():  # a file that the kernel lists and refuses to read, even to root
        (folder / "broken-disk.jpg").symlink_to("/proc/self/mem")
        bad |= {"broken-disk.jpg": "unreadable"}
    prefix = _obeying_permissions()
    if prefix is not None:
        write_photos(folder / "secret", 1)
        write_photos(folder / "locked", 1)
        (folder / "locked" / "000000.jpg").chmod(0)
        (folder / "secret").chmod(0)
        bad |= {"locked/000000.jpg": "unreadable", "secret": "unreadable"}
    words = ("--corpus", "zoo", "--output", "json")
    first = run_apart("index", folder, *words, home=home, prefix=prefix or (), LODESTONE_INDEX__SLICE_SIZE="16")
    yield Zoo(folder, home, first, frozenset(good), bad, prefix or ())
    if prefix is not None:
        (folder / "secret").chmod(0o700)  # so that it can be removed


def test_bad_files_do_not_cost_the_good_ones(zoo: Zoo) -> None:
    assert zoo.first.code == 0, zoo.first.err
    report = zoo.first.json
    assert report["images"] == len(zoo.good)
    assert report["counts"]["embedded"] == len(zoo.good)
    assert report["problems"] == []


def test_every_bad_file_is_listed_with_its_reason_and_no_other(zoo: Zoo) -> None:
    rows = run("status", "--failures", "--output", "json", home=zoo.home).json
    assert {row["uri"]: row["code"] for row in rows} == zoo.bad
    assert all(row["message"] and row["corpus"] == row["root"] == "zoo" for row in rows)
    shown = run("status", "--failures", home=zoo.home)
    assert shown.code == 0, shown.err
    assert len(shown.out.splitlines()) == len(zoo.bad)


def test_every_good_picture_can_be_found_under_its_name(zoo: Zoo) -> None:
    done = run("search", "a picture", "--limit", "200", "--output", "json", home=zoo.home)
    assert done.code == 0, done.err
    hits = done.json["hits"]
    assert {hit["uri"] for hit in hits} == zoo.good
    assert len(hits) == len(zoo.good)
    for hit in hits:
        file = path_of(zoo.folder, hit["uri"])
        assert file.is_file()
        if "path" in hit:
            assert Path(hit["path"]) == file
        else:  # JSON holds text, and this name is none
            assert hit["uri"].startswith("bytes:")


def test_names_of_every_script_are_shown_without_breaking_the_list(zoo: Zoo) -> None:
    done = run_apart("search", "a picture", "--limit", "200", "--path", "names", home=zoo.home)
    assert done.code == 0, done.err
    assert "\u7167\u7247.jpg" in done.out
    assert "\N{CAT}" in done.out
    assert "line\nbreak" not in done.out
    assert "\u202e" not in done.out  # would turn the rest of the line around


def test_a_picture_among_the_bad_is_found_by_words(zoo: Zoo) -> None:
    found = run("search", "a cat", "--limit", "1", "--output", "json", home=zoo.home).json
    assert found["hits"][0]["uri"] == "a folder.jpg/cat.png"


@pytest.mark.parametrize("kind", ["oversized", "reduced"])
def test_20000_x_20000_is_a_picture_as_jpeg_and_a_failure_as_png(zoo: Zoo, kind: str, tmp_path: Path) -> None:
    if kind == "oversized":
        rows = {row["uri"]: row for row in run("status", "--failures", "--output", "json", home=zoo.home).json}
        assert rows["bad/huge.png"]["code"] == "too_large"
        assert "512 MB are allowed" in rows["bad/huge.png"]["message"]
    else:
        copy = shutil.copy(zoo.folder / "good" / "huge.jpg", tmp_path / "copy.jpg")  # the file itself counts as its picture
        done = run("similar", copy, "--limit", "1", "--output", "json", home=zoo.home)
        assert done.json["hits"][0]["uri"] == "good/huge.jpg"


def test_a_second_run_embeds_nothing_and_loses_nothing(zoo: Zoo) -> None:
    again = zoo.index()
    assert again.code == 0, again.err
    counts = again.json["counts"]
    assert counts.get("embedded", 0) == 0
    assert counts.get("gone", 0) == 0
    assert again.json["images"] == len(zoo.good)
    test_every_bad_file_is_listed_with_its_reason_and_no_other(zoo)
    test_every_good_picture_can_be_found_under_its_name(zoo)


def test_permissions_were_tried(zoo: Zoo) -> None:
    if "secret" not in zoo.bad:
        pytest.skip("as root, without setpriv, nothing is unreadable by its permissions")
    assert "Permission denied" in run("status", "--failures", home=zoo.home).out
