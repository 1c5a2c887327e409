"""An embedded store has one owner at a time, and a second opener is told who that is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.points import make_points

from lodestone.errors import StoreLockedError
from lodestone.store.factory import open_store
from lodestone.store.ownership import read_owner
from lodestone_schemas.collections import CollectionSpec

SPEC = CollectionSpec("pictures-1", 8)

OPEN = """
import sys
from pathlib import Path
from lodestone.errors import StoreLockedError
from lodestone.store.factory import open_store
try:
    store = open_store("edge", root=Path(sys.argv[1]), lock_timeout=0.2, owner="the second")
except StoreLockedError as error:
    print("LOCKED", error.details["pid"], error.details["command"], "|", error, "|", error.hint)
else:
    print("OPEN", store.collections(), flush=True)
    sys.stdin.read()
"""


def second_process(root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", OPEN, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_second_process_is_told_who_owns_the_store_and_the_owner_loses_nothing(tmp_path: Path) -> None:
    owner = open_store("edge", root=tmp_path, owner="lodestone serve")
    owner.create(SPEC)
    owner.upsert(SPEC.name, make_points(100, 8))
    said, _ = second_process(tmp_path).communicate(timeout=240)
    assert said.startswith(f"LOCKED {os.getpid()} lodestone serve |")
    assert "waited 0.2 s" in said
    owner.upsert(SPEC.name, make_points(50, 8, first=100))
    owner.close()
    again = open_store("edge", root=tmp_path)
    assert again.count(SPEC.name) == 150
    again.close()


def test_a_second_opener_in_the_same_process_is_refused_too(tmp_path: Path) -> None:
    owner = open_store("edge", root=tmp_path)
    with pytest.raises(StoreLockedError, match=str(os.getpid())):
        open_store("edge", root=tmp_path, lock_timeout=0)
    owner.close()
    open_store("edge", root=tmp_path, lock_timeout=0).close()
    assert read_owner(tmp_path) is None


def test_the_lock_of_a_killed_owner_is_free(tmp_path: Path) -> None:
    other = second_process(tmp_path)
    assert other.stdout is not None
    assert other.stdout.readline() == "OPEN []\n"
    with pytest.raises(StoreLockedError, match=rf"process {other.pid} \(the second\)"):
        open_store("edge", root=tmp_path, lock_timeout=0)
    other.send_signal(signal.SIGKILL)
    other.communicate()
    open_store("edge", root=tmp_path, lock_timeout=0).close()


def test_a_lock_without_a_readable_owner_file_still_holds(tmp_path: Path) -> None:
    owner = open_store("edge", root=tmp_path)
    (tmp_path / "owner.json").write_text("{half")
    with pytest.raises(StoreLockedError, match="another process"):
        open_store("edge", root=tmp_path, lock_timeout=0)
    owner.close()
