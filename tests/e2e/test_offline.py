"""Indexing and searching work without a network, and on one machine without Ray."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support.cli import lodestone
from tests.support.photos import CAT, COFFEE, photo_path

# Python's own sockets refused: used where the kernel does not let us take the network away.
_NO_SOCKETS = """
import socket
def _refused(*_a, **_k):
    raise OSError("the network is blocked by this test")
socket.socket.connect = _refused
socket.socket.connect_ex = _refused
socket.getaddrinfo = _refused
"""


def _isolation() -> tuple[str, ...]:
    """Words that run a command in a network namespace of its own, with no interface up; none where that is not allowed."""
    for words in (("unshare", "--net"), ("unshare", "--map-root-user", "--net")):
        if shutil.which("unshare") and subprocess.run([*words, "true"], check=False, capture_output=True).returncode == 0:
            return words
    return ()


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[str, ...], dict[str, str]]:
    if words := _isolation():
        blocked = subprocess.run(
            [*words, "python3", "-c", "import socket; socket.create_connection(('192.0.2.1', 9), 2)"],
            check=False,
            capture_output=True,
        )
        assert blocked.returncode != 0
        assert b"unreachable" in blocked.stderr
        return words, {}
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(_NO_SOCKETS, encoding="utf-8")
    return (), {"PYTHONPATH": str(folder)}


def test_index_and_search_need_neither_a_network_nor_ray(
    tmp_path: Path, isolated: tuple[tuple[str, ...], dict[str, str]]
) -> None:
    prefix, more = isolated
    pictures, home = tmp_path / "pictures", tmp_path / "home"
    pictures.mkdir()
    for name in (CAT, COFFEE):
        shutil.copy(photo_path(name), pictures)
    blocked = tmp_path / "blocked" / "ray"
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text('raise AssertionError("one machine needs no Ray")')
    folders = [str(blocked.parent), *filter(None, [more.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))])]
    more = {**more, "PYTHONPATH": os.pathsep.join(folders)}
    done = lodestone("index", pictures, home=home, prefix=prefix, **more)
    assert done.code == 0, done.err
    for words, name in (("a cat", CAT), ("a cup of coffee", COFFEE)):
        answer = lodestone("search", words, "--output", "json", home=home, prefix=prefix, **more)
        assert answer.code == 0, answer.err
        assert Path(answer.json["hits"][0]["path"]).name == name
