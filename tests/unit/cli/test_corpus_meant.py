"""A run whose command names no corpus goes on with the one that has its folders, so that nothing is indexed twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import run_here
from tests.support.pictures import write_photos

from lodestone.catalog.catalog import Catalog
from lodestone_cli.corpus_meant import corpus_meant


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(tmp_path / "catalog.sqlite") as opened:
        for corpus, path in (
            ("family", "/a"),
            ("family", "/shared"),
            ("work", "/b"),
            ("default", "/shared"),
            ("work", "s3://b/x"),
        ):
            opened.ensure_root(opened.ensure_corpus(corpus).corpus_id, path)
        yield opened


@pytest.mark.parametrize(
    ("paths", "meant"),
    [
        ([Path("/a")], "family"),
        ([Path("/a/2012/x.jpg")], "family"),
        ([Path("/b/../a")], "family"),
        ([Path("/ab")], "default"),  # no folder of /a
        ([Path("/")], "default"),  # above it
        ([Path("/a"), Path("/shared")], "family"),
        ([Path("/a"), Path("/b")], "default"),
        ([Path("/a"), Path("/new")], "default"),
        ([Path("/shared")], "default"),
        (["s3://b/x"], "work"),
        (["s3://b/xy"], "default"),
        ([], "default"),
    ],
    ids=str,
)
def test_the_corpus_is_the_only_one_that_has_all_folders(catalog: Catalog, paths: list[Path | str], meant: str) -> None:
    assert corpus_meant(catalog, paths) == meant


def test_a_run_is_resumed_of_the_only_corpus(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "catalog.sqlite") as catalog:
        assert corpus_meant(catalog, []) == "default"
        catalog.ensure_corpus("family")
        assert corpus_meant(catalog, []) == "family"


def test_a_renamed_corpus_goes_on_under_its_name(tmp_path: Path) -> None:
    home, pictures = tmp_path / "home", tmp_path / "pictures"
    write_photos(pictures, 2)
    assert run_here("index", str(pictures), home=home).code == 0
    assert run_here("corpus", "rename", "default", "family", home=home).code == 0
    done = run_here("index", str(pictures), home=home)
    assert done.code == 0, done.err
    assert "2 pictures can be found in family" in " ".join(done.out.split())
    assert "default" not in run_here("corpus", "list", home=home).out


def test_a_directory_that_a_renamed_corpus_has_is_added_to_it(tmp_path: Path) -> None:
    home, pictures = tmp_path / "home", tmp_path / "pictures"
    write_photos(pictures / "2019", 1)
    write_photos(tmp_path / "others", 1)
    assert run_here("directory", "add", str(pictures), "--no-index", home=home).code == 0
    assert run_here("corpus", "rename", "default", "family", home=home).code == 0
    assert run_here("directory", "add", str(pictures), "--no-index", home=home).code == 0
    assert "default" not in run_here("corpus", "list", home=home).out
    assert run_here("directory", "add", str(tmp_path / "others"), "--no-index", home=home).code == 0
    listed = run_here("directory", "list", home=home).out
    assert "family/pictures" in listed
    assert "default/others" in listed
