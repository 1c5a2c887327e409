"""The model cache: built once, by one process, whole or not at all."""

import errno
import logging
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from lodestone.errors import ConfigurationError, ModelUnavailableError, OutOfSpaceError
from lodestone.models import cache as cache_module
from lodestone.models.cache import ModelCache, fingerprint, hash_file


def _writes(content: bytes, calls: list[Path] | None = None):
    def build(target: Path) -> None:
        if calls is not None:
            calls.append(target)
        target.write_bytes(content)

    return build


def _never(target: Path) -> None:
    raise AssertionError(f"{target} was built again")


def _names(root: Path) -> set[str]:
    return {path.name for path in root.iterdir() if path.suffix != ".lock"}


def test_a_file_is_built_at_first_and_found_from_then_on(tmp_path):
    cache = ModelCache(tmp_path / "made" / "when-needed")
    path = cache.obtain("net", key="k1", suffix=".onnx", build=_writes(b"graph"))
    assert path.read_bytes() == b"graph"
    assert path.suffix == ".onnx"
    assert ModelCache(cache.root).obtain("net", key="k1", suffix=".onnx", build=_never) == path
    assert _names(cache.root) == {"net-k1.onnx", "net-k1.onnx.blake3"}


def test_the_log_tells_of_a_file_that_is_built_and_not_of_one_that_is_found(tmp_path, caplog):
    caplog.set_level(logging.INFO, "lodestone.models.cache")
    for _ in range(2):
        path = ModelCache(tmp_path).obtain("net", key="k1", suffix=".onnx", build=_writes(b"graph"))
    assert caplog.messages == [f"making {path}, which is done once"]


def test_another_key_is_another_file_beside_the_first(tmp_path):
    cache = ModelCache(tmp_path)
    old = cache.obtain("net", key="k1", suffix=".onnx", build=_writes(b"old"))
    new = cache.obtain("net", key="k2", suffix=".onnx", build=_writes(b"new"))
    assert (old.read_bytes(), new.read_bytes()) == (b"old", b"new")


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-3]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"x" + path.read_bytes()[1:]),
        lambda path: path.unlink(),
        lambda path: path.with_name(path.name + ".blake3").unlink(),
        lambda path: path.with_name(path.name + ".blake3").write_bytes(b"\xff\xfe"),
    ],
    ids=["truncated", "empty", "altered", "gone", "no checksum", "broken checksum"],
)
def test_a_damaged_file_is_built_again(tmp_path, damage):
    cache = ModelCache(tmp_path)
    damage(cache.obtain("net", key="k", suffix=".onnx", build=_writes(b"the graph")))
    assert cache.obtain("net", key="k", suffix=".onnx", build=_writes(b"the graph")).read_bytes() == b"the graph"
    assert cache.obtain("net", key="k", suffix=".onnx", build=_never).read_bytes() == b"the graph"


def test_a_build_that_fails_leaves_nothing_and_the_next_one_succeeds(tmp_path):
    def fails(target: Path) -> None:
        target.write_bytes(b"half")
        raise ModelUnavailableError("no weights")

    cache = ModelCache(tmp_path)
    with pytest.raises(ModelUnavailableError, match="no weights"):
        cache.obtain("net", key="k", suffix=".onnx", build=fails)
    assert _names(tmp_path) == set()
    assert cache.obtain("net", key="k", suffix=".onnx", build=_writes(b"whole")).read_bytes() == b"whole"


def test_what_a_killed_process_left_is_cleared_away(tmp_path):
    (tmp_path / "net-k.4711.partial.onnx").write_bytes(b"half")
    ModelCache(tmp_path).obtain("net", key="k", suffix=".onnx", build=_writes(b"whole"))
    assert _names(tmp_path) == {"net-k.onnx", "net-k.onnx.blake3"}


def _slow_build(target: Path) -> None:
    with (target.parent / "builds.log").open("a") as log:
        log.write(f"{os.getpid()}\n")
    time.sleep(0.5)  # long enough for every other process to arrive
    target.write_bytes(b"graph" * 1000)


def _obtain(root: str) -> bytes:
    return ModelCache(Path(root)).obtain("net", key="k", suffix=".onnx", build=_slow_build).read_bytes()


def test_several_processes_at_once_build_once(tmp_path):
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        contents = pool.map(_obtain, [str(tmp_path)] * 8, chunksize=1)
    assert contents == [b"graph" * 1000] * 8
    assert len((tmp_path / "builds.log").read_text().splitlines()) == 1


def test_waiting_for_another_process_ends_with_a_clear_error(tmp_path, monkeypatch):
    from filelock import FileLock

    monkeypatch.setattr(cache_module, "LOCK_SECONDS", 0.1)
    with FileLock(tmp_path / "net-k.onnx.lock"), pytest.raises(ModelUnavailableError, match=r"net-k\.onnx"):
        ModelCache(tmp_path).obtain("net", key="k", suffix=".onnx", build=_never)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_named_and_leaves_nothing(tmp_path, code):
    def full(target: Path) -> None:
        target.write_bytes(b"half")
        raise OSError(code, os.strerror(code))

    with pytest.raises(OutOfSpaceError, match=r"net-k\.onnx"):
        ModelCache(tmp_path).obtain("net", key="k", suffix=".onnx", build=full)
    assert _names(tmp_path) == set()


def test_a_root_that_cannot_be_written_names_the_directory(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(ConfigurationError, match="file"):
        ModelCache(tmp_path / "file" / "models").obtain("net", key="k", suffix=".onnx", build=_never)


def test_reading_a_filled_cache_writes_nothing(tmp_path):
    cache = ModelCache(tmp_path)
    cache.obtain("net", key="k", suffix=".onnx", build=_writes(b"graph"))
    for lock in tmp_path.glob("*.lock"):
        lock.unlink()
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    cache.obtain("net", key="k", suffix=".onnx", build=_never)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_a_fingerprint_changes_with_every_part_and_where_it_ends(tmp_path):
    assert fingerprint("ab", "c") == fingerprint("ab", "c")
    assert len({fingerprint(*parts) for parts in [("ab", "c"), ("a", "bc"), ("abc",), ("ab", "c", ""), ("c", "ab")]}) == 5
    (tmp_path / "empty").touch()
    (tmp_path / "full").write_bytes(b"x")
    assert hash_file(tmp_path / "empty") != hash_file(tmp_path / "full")


@pytest.mark.parametrize("content", [b"", b"not a graph", None], ids=["empty", "garbage", "missing"])
def test_a_file_that_is_no_graph_is_named(tmp_path, content):
    from lodestone.models.session import open_session

    path = tmp_path / "net.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelUnavailableError, match=r"net\.onnx") as caught:
        open_session(path)
    assert "delete" in caught.value.hint
