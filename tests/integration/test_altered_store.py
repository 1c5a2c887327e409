"""Each altered bit of an embedded collection is found before the engine reads it, also after a kill, and nothing else.

Children with limits do the work: a bit that the engine believes may ask for 25 GB, end the process, or fill the disk.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.support.points import make_points

from lodestone.errors import CollectionDamagedError
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import VectorQuery
from lodestone.store.edge import generation as opening
from lodestone.store.edge.contents import CONTENTS_FILE, STALE_FILE
from lodestone.store.edge.generation import MAPPINGS_FILE
from lodestone.store.edge.store import EdgeStore
from lodestone_schemas.collections import CollectionSpec

DIM = 16
NAMES = ("graph", "plain", "terms")
_COMMON = """
import json, os, resource, sys
from pathlib import Path
for kind, most in ((resource.RLIMIT_AS, 6 << 30), (resource.RLIMIT_FSIZE, 128 << 20), (resource.RLIMIT_CORE, 0)):
    resource.setrlimit(kind, (most, most))
from lodestone.errors import CollectionDamagedError
from lodestone.store.aliases import JsonAliasTable
from lodestone.store.base import Filter, MatchAny, SparseQuery, VectorQuery
from lodestone.store.edge.store import EdgeStore
from lodestone_schemas.collections import CollectionSpec, Quantization
from tests.support.points import make_points, make_sparse_points
root = Path(sys.argv[1])
def opened():
    return EdgeStore(root / "store", aliases=JsonAliasTable(root / "aliases.json"))
"""
_MAKE = """
store = opened()
points = make_points(300, 16)
store.create(CollectionSpec("plain", 16))
store.upsert("plain", points)
store.delete("plain", points.ids[:3])
store.create(CollectionSpec("graph", 16, quantization=Quantization.INT8))
store.upsert("graph", points)
store.build("graph")
store.delete("graph", points.ids[:3])
store.upsert("graph", make_points(30, 16, first=20, seed=4))
store.create(CollectionSpec("terms", sparse=True))
store.upsert_sparse("terms", make_sparse_points(200))
if sys.argv[2] == "killed":
    store.settle()  # as a sync does at its end
    store.upsert("plain", make_points(5, 16, first=900))
    store.upsert("graph", make_points(5, 16, first=900))
    os._exit(9)
store.close()
"""
_EACH = """
outcomes = {}
for line in sys.stdin:
    name, at, bit = json.loads(line)
    path = root / "store" / "collections" / name
    for _ in range(2):
        with path.open("r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ (1 << bit)]))
        if name not in outcomes:
            store = opened()
            try:
                store.info(path.relative_to(root / "store" / "collections").parts[0])
                outcomes[name] = "opened"
            except CollectionDamagedError as error:
                outcomes[name] = error.message
            store.close()
    if outcomes[name] == "opened":
        break
print(json.dumps(outcomes))
"""
_ANSWER = """
store, found = opened(), []
try:
    for batch in store.scroll(sys.argv[2]):
        found += sorted(batch.ids)
    if sys.argv[2] != "terms":
        queries = [VectorQuery(vector, 8) for vector in make_points(4, 16, seed=9).vectors]
        found += [answer.ids for answer in store.search(sys.argv[2], queries)]
        found += [store.count(sys.argv[2], Filter((MatchAny("corpus", ("corpus1",)),)))]
    store.close()
except CollectionDamagedError as error:
    found = "damaged"
print(json.dumps(found))
"""


def _child(script: str, *arguments: str, given: str = "", code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _COMMON + script, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == code, done.stderr[-2000:]
    return done.stdout


def _files(root: Path) -> list[str]:
    """Files that the engine reads, or that say how to read them."""
    folder = root / "store" / "collections"
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    left_out = {CONTENTS_FILE, STALE_FILE, "upserts.bin", "deleted.json"}  # which have tests of their own, and cost no answer
    return [
        path.relative_to(folder).as_posix()
        for path in paths
        if path.name not in left_out and not (path.name == "spec.json" and path.parent.parent.parent == folder)
    ]


def _bits(root: Path, names: list[str], seed: int) -> list[tuple[str, int, int]]:
    """One bit of each file, where there is something in it: sparse files are nearly all zeros."""
    draw, bits = random.Random(seed), []
    for name in names:
        content = (root / "store" / "collections" / name).read_bytes()
        padded = np.frombuffer(content + bytes(-len(content) % 512), np.uint8).reshape(-1, 512)
        full = [int(block) * 512 for block in np.flatnonzero(padded.any(axis=1))] or [0]
        start = draw.choice(full)
        bits.append((name, min(start + draw.randrange(512), len(content) - 1), draw.randrange(8)))
    return bits


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that was closed."""
    root = tmp_path_factory.mktemp("closed")
    _child(_MAKE, str(root), "closed")
    return root


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose process was killed after a settled piece of work and a few more writes."""
    root = tmp_path_factory.mktemp("killed")
    _child(_MAKE, str(root), "killed", code=9)
    return root


def _copied(root: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-a", "--sparse=always", str(root), str(target)], check=True)
    return target


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=[pytest.mark.nightly, pytest.mark.slow]) for seed in (2, 3))])
def test_one_altered_bit_of_any_file_of_a_closed_collection_is_found(closed: Path, tmp_path: Path, seed: int) -> None:
    root = _copied(closed, tmp_path / "root")
    names = _files(root)
    assert len(names) > 100
    given = "\n".join(json.dumps(bit) for bit in _bits(root, names, seed))
    outcomes = json.loads(_child(_EACH, str(root), given=given))
    assert [name for name in names if outcomes.get(name, "opened") == "opened"] == []


def test_a_row_of_the_mappings_is_found_after_a_kill_whatever_its_altered_bit(
    killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine would make room for each row up to the highest: for the highest bit, 25 GB."""
    root = _copied(killed, tmp_path / "root")
    (path,) = (root / "store" / "collections" / "plain").rglob(MAPPINGS_FILE)
    content = path.read_bytes()
    monkeypatch.setattr(opening, "run_probe", lambda _: pytest.fail("the mappings are looked at first"))
    for bit in range(9, 32):  # of the first record's row, in bytes 17 to 20
        altered = bytearray(content)
        altered[17 + bit // 8] ^= 1 << bit % 8
        path.write_bytes(altered)
        store = EdgeStore(root / "store", aliases=JsonAliasTable(root / "aliases.json"))
        with pytest.raises(CollectionDamagedError, match=r"a point has the row"):
            store.info("plain")
        store.close()


def test_without_a_look_at_the_mappings_a_trial_opening_dies_in_place_of_the_process(
    killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _copied(killed, tmp_path / "root")
    (path,) = (root / "store" / "collections" / "plain").rglob(MAPPINGS_FILE)
    altered = bytearray(path.read_bytes())
    altered[20] ^= 128
    path.write_bytes(altered)
    monkeypatch.setattr(opening, "wrong_mapping", lambda _: None)
    store = EdgeStore(root / "store", aliases=JsonAliasTable(root / "aliases.json"))
    with pytest.raises(CollectionDamagedError, match="a trial opening was ended by signal 6"):
        store.info("plain")
    store.close()


@pytest.mark.parametrize("count", [4, pytest.param(80, marks=[pytest.mark.nightly, pytest.mark.slow])])
def test_after_a_kill_an_altered_bit_ends_no_process(killed: Path, tmp_path: Path, count: int) -> None:
    names = _files(killed)
    bits = random.Random(count).sample(_bits(killed, names, count), count)
    for name, at, bit in bits:
        root = _copied(killed, tmp_path / "root")
        path = root / "store" / "collections" / name
        content = bytearray(path.read_bytes())
        content[at] ^= 1 << bit
        path.write_bytes(content)
        assert json.loads(_child(_ANSWER, str(root), name.split("/")[0])) != [], (name, at, bit)


def test_what_a_killed_process_left_answers_as_before(killed: Path, tmp_path: Path) -> None:
    root = _copied(killed, tmp_path / "root")
    assert list((root / "store").rglob(STALE_FILE)) != []
    for name, points in zip(NAMES, (302, 302, 200), strict=True):
        assert len([one for one in json.loads(_child(_ANSWER, str(root), name)) if isinstance(one, str)]) == points
    assert list((root / "store").rglob(STALE_FILE)) == []


def test_a_kill_while_a_collection_is_opened_looks_like_no_damage(closed: Path, tmp_path: Path) -> None:
    """The engine applies its journals when it opens the files, and these are then others than those that were recorded."""
    root = _copied(closed, tmp_path / "root")
    assert list((root / "store" / "collections" / "plain").rglob("*_journal.dat")) != []
    script = """
from lodestone.store.edge import generation
generation.ContentRecord.renew = lambda *_, **__: os._exit(9)
opened().info("plain")
"""
    _child(script, str(root), code=9)
    assert list((root / "store" / "collections" / "plain").rglob("*_journal.dat")) == []
    assert len([one for one in json.loads(_child(_ANSWER, str(root), "plain")) if isinstance(one, str)]) == 297


def test_no_order_of_writes_closings_and_kills_looks_like_damage(tmp_path: Path) -> None:
    script = """
import random
draw, expected = random.Random(int(sys.argv[2])), set(json.loads(sys.argv[3]))
for turn in range(6):
    store = opened()
    if "plain" not in store.collections():
        store.create(CollectionSpec("plain", 16))
    assert {i for batch in store.scroll("plain") for i in batch.ids} == expected, turn
    for _ in range(draw.randrange(4)):
        points = make_points(draw.randrange(1, 90), 16, first=draw.randrange(400), seed=turn)
        if draw.random() < 0.3:
            store.delete("plain", points.ids)
            expected -= set(points.ids)
        elif draw.random() < 0.15:
            store.build("plain")
        else:
            store.upsert("plain", points)
            expected |= set(points.ids)
        if draw.random() < 0.3:
            store.settle()
    if turn < 5:
        store.close()
print(json.dumps(sorted(expected)), flush=True)
os._exit(9)
"""
    expected = "[]"
    for seed in range(3):
        expected = _child(script, str(tmp_path), str(seed), expected, code=9)


def test_an_altered_file_of_an_open_collection_is_found_by_a_full_comparison(tmp_path: Path) -> None:
    store = EdgeStore(tmp_path / "store", aliases=JsonAliasTable(tmp_path / "aliases.json"))
    points = make_points(60, DIM)
    store.create(CollectionSpec("plain", DIM))
    store.upsert("plain", points)
    (vectors,) = (tmp_path / "store").rglob("chunk_0.mmap")
    store.examine_files("plain")  # was written to, and is not judged
    store.settle()
    store.examine_files("plain")
    (nearest,) = store.search("plain", [VectorQuery(points.vectors[0], 3, exact=True)])
    times = vectors.stat()
    with vectors.open("r+b") as file:
        file.seek(3)
        byte = file.read(1)[0]
        file.seek(3)
        file.write(bytes([byte ^ 0x08]))
    os.utime(vectors, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(CollectionDamagedError, match=r"chunk_0\.mmap' was altered"):
        store.examine_files("plain")
    with vectors.open("r+b") as file:
        file.seek(3)
        file.write(bytes([byte]))
    store.close()
    again = EdgeStore(tmp_path / "store", aliases=JsonAliasTable(tmp_path / "aliases.json"))
    assert again.search("plain", [VectorQuery(points.vectors[0], 3, exact=True)])[0].ids == nearest.ids
    again.close()
