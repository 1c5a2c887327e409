"""What is left out of a listing: marked folders, homes, matches of patterns, and what other programs keep for themselves."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lodestone.directories.watch import concerns, to_index
from lodestone.errors import InvalidRequestError
from lodestone.files.beneath import Boundaries, Enclosure
from lodestone.sources.exclusion import BINS, HOMES, MARKED, PATTERNS, PREVIEWS, SNAPSHOTS, Exclusion, counted, parsed
from lodestone.sources.folders import discover

Put = Callable[..., Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    def write(name: str, content: str = "x") -> Path:
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    write("shown.jpg")
    return write


def listed(
    folder: Path, boundaries: Boundaries | None = None, *patterns: str, below: str = ""
) -> tuple[set[str], dict[str, int]]:
    exclusion = Exclusion(str(folder), boundaries, patterns=patterns)
    found = {file.uri for file in discover(folder / below, exclusion=exclusion, prefix=below)}
    return found, dict(exclusion.counts)


@pytest.mark.parametrize("name", [".nomedia", ".noimage", ".nomemories", ".ppignore"])
def test_a_marker_leaves_its_folder_out_with_all_below(put: Put, name: str) -> None:
    put("private/a.jpg")
    put("private/deep/er/b.jpg")
    put(f"private/{name}", "")
    folder = put("beside/c.jpg").parents[1]
    assert listed(folder) == ({"shown.jpg", "beside/c.jpg"}, {MARKED: 1})
    assert listed(folder, below="private/deep") == (set(), {MARKED: 1})
    exclusion = Exclusion(str(folder))
    assert exclusion.leaves_out("private/deep/er/b.jpg")
    assert not exclusion.leaves_out("beside/c.jpg")


@pytest.mark.parametrize("name", [".stignore", ".immich"])
def test_files_of_other_programs_mark_a_folder_only_where_they_say_star(put: Put, name: str) -> None:
    put("all/a.jpg")
    put(f"all/{name}", "*\n")
    put("some/b.jpg")
    put(f"some/{name}", "*.tmp\n")
    put("none/c.jpg")
    folder = put(f"none/{name}", "").parents[1]
    assert listed(folder)[0] == {"shown.jpg", "some/b.jpg", "none/c.jpg"}


def test_a_home_is_left_out_whoever_it_belongs_to_and_another_home_json_is_not(put: Put) -> None:
    put("home/home.json", json.dumps({"format": 1, "id": "abc", "written_by": "1"}))
    put("home/thumbnails/ab/t.jpg")
    put("damaged/home.json", "{")
    put("damaged/thumbnails/t.jpg")
    put("smart/home.json", json.dumps({"rooms": 3}))
    put("smart/a.jpg")
    folder = put("broken/home.json", "{").parents[1]
    put("broken/b.jpg")
    assert listed(folder) == ({"shown.jpg", "smart/a.jpg", "broken/b.jpg"}, {HOMES: 2, "sidecars": 2})


def test_folders_that_the_settings_name_are_left_out_also_through_links(put: Put, tmp_path: Path) -> None:
    folder = put("previews/t.jpg").parents[1]
    (folder / "again").symlink_to(folder / "previews")
    own = Boundaries(own=(str(folder / "previews"),))
    assert listed(folder, own) == ({"shown.jpg"}, {HOMES: 1})


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("#recycle", BINS),
        ("$RECYCLE.BIN", BINS),
        ("@Recycle", BINS),
        ("lost+found", BINS),
        ("#snapshot", SNAPSHOTS),
        ("@Recently-Snapshot", SNAPSHOTS),
        ("System Volume Information", SNAPSHOTS),
        ("__MACOSX", PREVIEWS),
        ("@eaDir", PREVIEWS),
        ("Catalog Previews.lrdata", PREVIEWS),
        ("Photos Library.photoslibrary/resources", PREVIEWS),
        ("Old.photolibrary/Thumbnails", PREVIEWS),
    ],
)
def test_what_systems_and_programs_keep_is_left_out_unless_the_settings_say_otherwise(put: Put, name: str, kind: str) -> None:
    put(f"year/{name}/deep/x.jpg")
    folder = put("year/y.jpg").parents[1]
    assert listed(folder) == ({"shown.jpg", "year/y.jpg"}, {kind: 1})
    assert listed(folder, Boundaries(system_folders=True)) == ({"shown.jpg", "year/y.jpg", f"year/{name}/deep/x.jpg"}, {})


def test_originals_of_a_photo_library_and_folders_called_resources_are_listed(put: Put) -> None:
    put("My.photoslibrary/originals/0/a.jpg")
    folder = put("resources/b.jpg").parents[1]
    assert listed(folder)[0] == {"shown.jpg", "My.photoslibrary/originals/0/a.jpg", "resources/b.jpg"}


def test_patterns_follow_gitignore_and_the_nearer_file_has_the_last_word(put: Put) -> None:
    for name in ("drafts/a.jpg", "2018/drafts/b.jpg", "2018/c.png", "2018/keep.png", "top.png", "2018/raw/d.jpg", "raw/e.jpg"):
        folder = put(name)
    put(".lodestoneignore", "# nothing with this\n\n*.png\ndrafts/\n")
    put("2018/.lodestoneignore", "!keep.png\n/raw\n")
    folder = put("shown.jpg").parent
    found, counts = listed(folder)
    assert found == {"shown.jpg", "2018/keep.png", "raw/e.jpg"}
    assert counts == {PATTERNS: 5}
    assert listed(folder, below="2018")[0] == {"keep.png"}
    assert listed(folder, Boundaries(exclude=("shown.*",)), "/raw/")[0] == {"2018/keep.png"}


def test_patterns_of_the_settings_are_relative_to_each_directory(put: Put) -> None:
    put("a/x.jpg")
    folder = put("b/a/y.jpg").parents[2]
    assert listed(folder, Boundaries(exclude=("/a/",)))[0] == {"shown.jpg", "b/a/y.jpg"}
    assert listed(folder / "b", Boundaries(exclude=("/a/",)))[0] == set()


def test_our_own_file_of_patterns_has_the_last_word_over_photoprisms(put: Put) -> None:
    put("a.jpg")
    put(".ppignore", "a.jpg\nshown.jpg\n")
    folder = put(".lodestoneignore", "!a.jpg\n").parent
    assert listed(folder)[0] == {"a.jpg"}


def test_patterns_that_cannot_be_read_are_refused_in_settings_and_skipped_in_files(put: Put) -> None:
    with pytest.raises(InvalidRequestError, match="'!'") as refusal:
        parsed(["*.png", "!"])
    assert "gitignore" in str(refusal.value.hint)
    put("a.png")
    folder = put(".lodestoneignore", "!\n*.png\n").parent
    assert listed(folder)[0] == {"shown.jpg"}


def test_a_file_of_patterns_that_leads_out_of_its_folder_is_not_read(put: Put, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("*\n")
    folder = put("a/b.jpg").parents[1]
    (folder / "a" / ".lodestoneignore").symlink_to(outside)
    within = Enclosure(str(folder), str(folder))
    rules = Exclusion(str(folder), within=within)
    found = {file.uri for file in discover(folder, within=within, exclusion=rules)}
    assert found == {"shown.jpg", "a/b.jpg"}
    assert listed(folder)[0] == {"shown.jpg"}  # without an enclosure, links are followed


def test_a_marker_is_seen_in_a_folder_with_more_names_than_are_held(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    from lodestone.sources import folders

    monkeypatch.setattr(folders, "_HELD", 2)
    for number in range(6):
        put(f"many/{number}.jpg")
    folder = put("many/.nomedia", "").parents[1]
    assert listed(folder) == ({"shown.jpg"}, {MARKED: 1})


def test_what_was_left_out_is_said_in_words() -> None:
    assert counted({BINS: 1, "videos": 12, HOMES: 1, PATTERNS: 2}) == (
        "1 recycle bin, 12 videos, 1 home of Lodestone, 2 matches of patterns"
    )
    assert counted({}) == ""


def test_changes_in_what_is_left_out_concern_nobody_and_changes_of_the_rules_do(put: Put) -> None:
    put("home/home.json", json.dumps({"format": 1, "id": "abc"}))
    thumbnail = put("home/thumbnails/ab/t.jpg")
    put("private/.nomedia", "")
    hidden = put("private/deep/a.jpg")
    root = put("open/b.jpg").parents[1]
    assert not concerns(root, thumbnail)
    assert not concerns(root, hidden)
    assert to_index(root, [thumbnail, hidden, root / "home"]) == ()
    assert to_index(root, [root / "private" / ".nomedia"]) == (str(root),)  # its own folder has nothing to index any more
    os.unlink(root / "private" / ".nomedia")  # noqa: PTH108
    assert to_index(root, [root / "private" / ".nomedia"]) == (str(root / "private"),)
    (root / ".lodestoneignore").write_text("open/\n")
    assert to_index(root, [root / ".lodestoneignore"]) == (str(root),)
    assert not concerns(root, root / "open" / "b.jpg")
    assert not concerns(root, root / ".hidden" / ".nomedia")
    (root / "private" / ".nomedia").write_text("")
    assert not concerns(root, root / "private" / "deep" / ".nomedia")


def test_patterns_apply_to_names_in_a_bucket_too() -> None:
    import fsspec

    from lodestone.files.filesystems import FileSystems
    from lodestone.files.urls import Url
    from lodestone.sources.objects import ObjectSource

    bucket = fsspec.filesystem("memory")
    for name in ("a.jpg", "raw/b.jpg", "deep/raw/c.jpg", "deep/d.png", "#recycle/e.jpg", "deep/@eaDir/f.jpg", "rawest/g.jpg"):
        bucket.pipe(f"/left-out/{name}", b"x")
    base = Url.typed("memory://left-out")

    def names(*exclude: str) -> set[str]:
        return {file.uri for file in ObjectSource(base, FileSystems(), exclude=exclude).items(lambda _: None)}

    assert names() == {"a.jpg", "raw/b.jpg", "deep/raw/c.jpg", "deep/d.png", "rawest/g.jpg"}
    assert names("raw/", "*.png") == {"a.jpg", "rawest/g.jpg"}
    assert names("/raw/", "!a.jpg") == {"a.jpg", "deep/raw/c.jpg", "deep/d.png", "rawest/g.jpg"}
