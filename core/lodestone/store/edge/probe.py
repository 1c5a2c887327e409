"""Child process that opens a shard first, where its files may be damaged: they may end the process that opens them.

Run as `python -I probe.py SHARD MEMORY_BYTES FILE_BYTES CPU_SECONDS`; exit status 0 means that the shard can be opened, counted
and read within these limits, and searched. The parent calls `run_probe`, which says what failed. The child imports the engine
alone, so it starts in 50 ms.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

_EXIT_FAILED: Final = 1
_READ: Final = 512  # points that are read with vectors and payloads
_PAGE: Final = 10_000
_BASE_MEMORY: Final = 4 << 30  # address space of interpreter, engine and threads; little of it is used
_BASE_FILE: Final = 256 << 20
_BASE_SECONDS: Final = 60
_BYTES_A_SECOND: Final = 20 << 20  # far slower than an opening is


def run_probe(shard: Path) -> str | None:
    """Open a shard in a child process that has limits of memory, time and disk; return why it failed, or None.

    Args:
        shard: The engine's folder, which no process has open.
    """
    files = [entry.stat() for entry in shard.rglob("*") if entry.is_file()]
    total, largest = sum(one.st_size for one in files), max((one.st_size for one in files), default=0)
    seconds = _BASE_SECONDS + total // _BYTES_A_SECOND
    limits = (_BASE_MEMORY + 4 * total, _BASE_FILE + 2 * largest, seconds)
    command = [sys.executable, "-I", __file__, str(shard), *(str(limit) for limit in limits)]
    try:
        child = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=2 * seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"a trial opening did not end within {2 * seconds} seconds"
    if child.returncode == 0:
        return None
    how = f"was ended by signal {-child.returncode}" if child.returncode < 0 else "failed"
    lines = child.stderr.decode(errors="replace").strip().splitlines()
    return f"a trial opening {how}: {lines[-1] if lines else 'it said nothing'}"


def main(arguments: list[str]) -> int:
    """Run the child: open the shard under the limits, count, read and search it, and close it; return the exit status."""
    shard_path, memory, file, seconds = arguments[0], *(int(one) for one in arguments[1:4])
    _limit(memory, file, seconds)
    import qdrant_edge as qe

    try:
        shard = qe.EdgeShard.load(shard_path)
        shard.count(qe.CountRequest(exact=True))
        offset: Any = None
        while True:
            page, offset = shard.scroll(qe.ScrollRequest(offset=offset, limit=_PAGE, with_payload=False, with_vector=False))
            if offset is None or not page:
                break
        points, _ = shard.scroll(qe.ScrollRequest(limit=_READ, with_payload=True, with_vector=True))
        for vector in [point.vector for point in points[:1]]:
            if isinstance(vector, list):
                shard.query(qe.QueryRequest(limit=10, query=qe.Query.Nearest(vector), with_payload=True))
        shard.flush()
        shard.close()
    except BaseException as error:  # noqa: BLE001 - panics of the engine too: the parent is told
        print(f"{type(error).__name__}: {error}".replace("\n", " "), file=sys.stderr)  # noqa: T201 - the parent reads it
        return _EXIT_FAILED
    return 0


def _limit(memory: int, file: int, seconds: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    for kind, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, file),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (limit, limit))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
