"""A home is recognised and has an id of its own, and one that cannot be used is refused and left as it was."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from lodestone.config.home import HOME_FORMAT, Home
from lodestone.errors import ConfigurationError, HomeVersionError


def _snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_new_home_gets_its_folders_and_is_recognised(tmp_path: Path) -> None:
    home = Home(tmp_path / "deep" / "home")
    assert not home.exists()
    home.prepare()
    assert home.exists()
    assert home.embeddings.is_dir()
    assert home.store.is_dir()
    home.prepare()
    assert json.loads(home.marker.read_text("utf-8"))["format"] == HOME_FORMAT


def test_a_home_has_an_id_of_its_own_that_stays(tmp_path: Path) -> None:
    one, two = Home(tmp_path / "one"), Home(tmp_path / "two")
    one.prepare()
    two.prepare()
    assert not one.has_id()
    first = one.settle(Home.new_id())
    one.prepare()
    assert one.id == one.settle(Home.new_id()) == first != two.settle(Home.new_id())
    assert first.isalnum()
    one.adopt(None)
    assert one.settle("another") == "another" == one.id


def test_a_home_made_before_homes_had_ids_gets_one_and_keeps_the_rest(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.marker.write_text(json.dumps({"format": 1, "written_by": "0.1.0", "note": "mine"}), encoding="utf-8")
    home.prepare()
    home.settle(Home.new_id())
    assert json.loads(home.marker.read_text("utf-8")) == {"format": 1, "written_by": "0.1.0", "note": "mine", "id": home.id}


def test_processes_that_make_a_home_at_once_agree_on_its_id(tmp_path: Path) -> None:
    def make(_: int) -> str:
        home = Home(tmp_path / "home")
        home.prepare()
        return home.settle(Home.new_id())

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(make, range(8)))) == 1


@pytest.mark.parametrize("damaged", ["", 5, "../up", None])
def test_an_id_that_cannot_be_used_is_an_error_that_names_the_file(tmp_path: Path, damaged: object) -> None:
    home = Home(tmp_path)
    home.marker.write_text(json.dumps({"format": 1, "id": damaged}), encoding="utf-8")
    home.prepare()
    with pytest.raises(ConfigurationError, match=r"home\.json"):
        _ = home.id


def test_a_folder_with_a_catalog_or_with_embeddings_is_a_home_that_lost_its_marker(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.embeddings.mkdir()
    (home.embeddings / "my pictures").mkdir()
    home.catalog.write_bytes(b"")
    assert not home.exists()
    home.catalog.write_bytes(b"x")
    assert home.exists()
    with pytest.raises(ConfigurationError, match="cannot be read") as caught:
        home.prepare()
    assert "lodestone catalog repair-home" in caught.value.hint
    assert not home.marker.exists()
    home.catalog.unlink()
    assert not home.exists()
    (home.embeddings / str(uuid4())).mkdir()
    assert home.exists()


def test_a_home_of_a_newer_version_is_refused_and_untouched(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.prepare()
    home.marker.write_text(json.dumps({"format": HOME_FORMAT + 1, "written_by": "99.0"}), encoding="utf-8")
    before = _snapshot(tmp_path)
    with pytest.raises(HomeVersionError, match=r"99\.0"):
        home.prepare()
    assert _snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[]",
        "\x00",
        "[" * 60_000,
        " " * 70_000,
        *(f'{{"format": {value}}}' for value in ('"soon"', "Infinity", "NaN", "true", "0", "-1", "1.9", "[1]")),
    ],
    ids=lambda content: content[:20],
)
def test_a_damaged_marker_is_an_error_that_names_the_file(tmp_path: Path, content: str) -> None:
    home = Home(tmp_path)
    home.prepare()
    home.marker.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"home\.json"):
        home.check()


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.skipif(os.name != "posix", reason="has none of these")
@pytest.mark.parametrize(
    "make", [os.mkfifo, Path.mkdir, _loop, lambda path: path.symlink_to("nowhere"), lambda path: path.symlink_to("/dev/zero")]
)
def test_what_is_no_file_in_the_markers_place_is_told_without_opening_it_and_put_aside(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    home = Home(tmp_path)
    home.prepare()
    home.catalog.write_bytes(b"not empty")
    home.marker.unlink()
    make(home.marker)
    for use in (home.check, home.prepare, lambda: home.id, home.has_id):
        with pytest.raises(ConfigurationError, match=r"home\.json"):
            use()
    kept = home.mark_again("a1")
    assert home.id == "a1"
    assert kept is not None
    assert os.path.lexists(kept)


def test_a_file_in_the_way_is_an_error_with_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        Home(tmp_path / "file" / "home").prepare()
    assert "LODESTONE_HOME" in caught.value.hint


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_permission_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigurationError):
        Home(tmp_path / "home").prepare()


@pytest.mark.skipif(sys.platform != "linux", reason="open files are looked up in /proc")
def test_a_marker_survives_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its content is on the disk before it gets its name, and the name before the home is used."""
    steps: list[str] = []
    sync, replace = os.fsync, Path.replace

    def synced(handle: int) -> None:
        target = str(Path(f"/proc/self/fd/{handle}").readlink())
        steps.append("sync of the folder" if target == str(tmp_path / "home") else f"sync of {len(Path(target).read_bytes())}")
        sync(handle)

    def renamed(self: Path, target: Path) -> Path:
        steps.append(f"rename to {target.name}")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    home = Home(tmp_path / "home")
    home.prepare()
    size = home.marker.stat().st_size
    assert steps == [f"sync of {size}", "rename to home.json", "sync of the folder"]
    home.settle(Home.new_id())
    assert steps[3:] == [f"sync of {home.marker.stat().st_size}", "rename to home.json", "sync of the folder"]
    assert [entry.name for entry in home.path.iterdir() if entry.name.endswith(".tmp")] == []
