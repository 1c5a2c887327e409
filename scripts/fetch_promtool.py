"""Download of promtool, which tests the rules: the machine's own, else Debian's package, unpacked into `.cache`.

Nothing is installed, and no special rights are needed: apt downloads and verifies the package, dpkg unpacks it. Run
`python scripts/fetch_promtool.py` to fetch it ahead of the tests; it prints the path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CACHE = Path(__file__).resolve().parent.parent / ".servers" / "promtool"
PACKAGE = "prometheus"
_MEMBER = Path("usr/bin/promtool")
_SECONDS = 300


class PromtoolUnavailableError(RuntimeError):
    """The tool is not available here; the message says why."""


def fetch(cache: Path = CACHE) -> Path:
    """Return the path of promtool, downloading its package when neither the machine nor `cache` has it.

    Raises:
        PromtoolUnavailableError: this is no Debian, or the download failed.
    """
    installed = shutil.which("promtool")
    if installed is not None:
        return Path(installed)
    binary = cache / "promtool"
    if binary.exists():
        return binary
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise PromtoolUnavailableError(f"neither promtool nor {tool} is here: promtool comes with Prometheus")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        package = _download(Path(scratch))
        unpacked = Path(scratch) / "unpacked"
        _run(["dpkg", "-x", str(package), str(unpacked)], scratch)
        (unpacked / _MEMBER).replace(binary)
    return binary


def _download(scratch: Path) -> Path:
    try:
        _run(["apt-get", "download", "--quiet", PACKAGE], scratch)
    except PromtoolUnavailableError:  # the lists of packages may never have been fetched, or be too old
        _run(["apt-get", "update", "--quiet"], scratch)
        _run(["apt-get", "download", "--quiet", PACKAGE], scratch)
    packages = list(scratch.glob(f"{PACKAGE}_*.deb"))
    if len(packages) != 1:
        raise PromtoolUnavailableError(f"apt-get download {PACKAGE} left {len(packages)} packages")
    return packages[0]


def _run(command: list[str], folder: Path | str) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise PromtoolUnavailableError(f"`{' '.join(command)}` took more than {_SECONDS} s") from error
    if done.returncode != 0:
        last_line = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it said nothing"]
        raise PromtoolUnavailableError(f"`{' '.join(command)}` failed ({done.returncode}): {last_line[0]}")


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{fetch()}{os.linesep}")
    except PromtoolUnavailableError as error:
        sys.exit(str(error))
