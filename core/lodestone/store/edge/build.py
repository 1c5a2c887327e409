"""Child process that builds the graph of an embedded collection, because the engine's `optimize()` holds the GIL throughout.

Run as `python -m lodestone.store.edge.build SHARD SPEC.json THREADS`; exit status 0 means that the graph is on disk. The parent
calls `run_build_child`, which waits for the child and turns a failure into a `StoreError`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from lodestone.errors import LodestoneError, OutOfSpaceError, StoreError
from lodestone_schemas.collections import CollectionSpec

EXIT_FAILED = 1
EXIT_NO_SPACE = 28
_CRASHES = frozenset(getattr(signal, name, 0) for name in ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE")) - {0}
_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.2


def run_build_child(shard: Path, spec: CollectionSpec, stop: threading.Event, *, threads: int = 0) -> None:
    """Build the graph of the shard in a child process and wait for it.

    Args:
        shard: Engine directory that no process has open.
        spec: Graph and quantization parameters.
        stop: When set, the child is killed.
        threads: Threads of the build; 0 for one a core.

    Raises:
        CollectionDamagedError: The engine failed in the child, or crashed it, because files are damaged.
        StoreError: The child was killed, or was stopped.
        OutOfSpaceError: The disk filled up.
    """
    from lodestone.store.edge.engine import SPEC_FILE, damaged, dump_spec
    from lodestone.store.files import out_of_space

    spec_path = shard.parent / SPEC_FILE
    spec_path.write_text(dump_spec(spec), encoding="utf-8")
    # -P: a user's own lodestone.py in the working directory must not be imported instead of ours.
    command = [sys.executable, "-P", "-m", "lodestone.store.edge.build", str(shard), str(spec_path.parent), str(threads)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as child:
        while True:
            try:
                _, errors = child.communicate(timeout=_POLL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                if stop.is_set():
                    child.kill()
    if child.returncode == EXIT_NO_SPACE:
        raise out_of_space(shard)
    if child.returncode != 0:
        outcome = f"was killed by signal {-child.returncode}" if child.returncode < 0 else f"exited with {child.returncode}"
        last_line = errors.strip().splitlines()[-1:] or ["it said nothing"]
        if child.returncode == EXIT_FAILED or -child.returncode in _CRASHES:
            raise damaged(spec.name, shard, f"the build of its graph {outcome}: {last_line[0]}")
        raise StoreError(
            f"the build of collection {spec.name!r} {outcome}: {last_line[0]}",
            hint="the collection is unchanged and searchable; free memory or disk if short of it, and build again",
            returncode=child.returncode,
        )


def main(arguments: list[str]) -> int:
    """Run the child: open the shard, optimize it, flush it and close it; return the exit status."""
    _exit_with_parent()
    import qdrant_edge as qe

    from lodestone.store.edge.engine import engine_config, engine_errors, read_spec

    shard_path, spec_path, threads = Path(arguments[0]), Path(arguments[1]), int(arguments[2])
    try:
        with engine_errors("building the graph", shard_path):
            shard = qe.EdgeShard.load(str(shard_path), engine_config(read_spec(spec_path), threads=threads))
            shard.optimize()
            shard.flush()
            shard.close()
    except OutOfSpaceError:
        return EXIT_NO_SPACE
    except LodestoneError as error:
        print(error, file=sys.stderr)  # noqa: T201 - the parent reads the last line
        return EXIT_FAILED
    return 0


def _exit_with_parent() -> None:
    # On other systems an orphan finishes its build in a directory that nothing refers to; the next opening removes it.
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
