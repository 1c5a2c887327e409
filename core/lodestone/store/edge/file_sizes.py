"""Record of the sizes of a shard's files, which tells of files that were cut, emptied or lost before the engine opens them.

The engine does not notice all of them: it opens some shards with fewer points than they had, and others only from its log, as
long as that has every point. Without optimisation, which makes a new generation, the engine's files only grow, with three
exceptions: segments of its log come and go, JSON files are replaced, and journals are applied and deleted when a shard is
opened. So sizes are recorded when a shard is closed and when it is opened. A file that is missing or shorter is damaged.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

from lodestone.durable_files import write_atomically

SIZES_FILE: Final = "sizes.json"
_LOG: Final = "wal"  # its segments come and go
_REWRITTEN: Final = ".json"  # replaced as a whole; what is cut off here the engine cannot parse


def record_sizes(generation: Path, shard: str) -> None:
    """Write down the sizes of the shard's files as they are now; a disk without room keeps what was written before.

    Args:
        generation: Folder of the generation, which gets the record.
        shard: Name of the engine's folder in it.
    """
    path = generation / SIZES_FILE
    with suppress(OSError):  # an older record holds too: files only grow
        record = json.dumps({"engine": _engine(), "sizes": _sizes(generation / shard)}, indent=1)
        if not path.exists() or path.read_text(encoding="utf-8", errors="replace") != record:
            write_atomically(path, record)


def shrunken_file(generation: Path, shard: str) -> str | None:
    """Return what is wrong with the first file that is missing or shorter than recorded; None if there is none.

    A shard without a record, or with one of another version of the engine, which may have converted files, is not judged.
    """
    try:
        record = json.loads((generation / SIZES_FILE).read_text(encoding="utf-8"))
        recorded = {str(name): int(size) for name, size in record["sizes"].items()} if record["engine"] == _engine() else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    sizes = _sizes(generation / shard)
    for name, size in recorded.items():
        if name not in sizes:
            return f"the file {name!r} is missing"
        if sizes[name] < size:
            return f"the file {name!r} has {sizes[name]:,} bytes and had {size:,}"
    return None


def _sizes(folder: Path) -> dict[str, int]:
    """Return relative path -> size of the files below a folder.

    Each opening of a store lists hundreds of files, and `Path` objects would take several times as long as strings.
    """
    sizes: dict[str, int] = {}
    waiting = [(str(folder), "")]
    while waiting:
        parent, prefix = waiting.pop()
        with os.scandir(parent) as entries:
            for entry in entries:
                if not prefix and entry.name == _LOG:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, f"{prefix}{entry.name}/"))
                elif entry.is_file():
                    sizes[prefix + entry.name] = 0 if entry.name.endswith(_REWRITTEN) else entry.stat().st_size
    return dict(sorted(sizes.items()))


@cache
def _engine() -> str:
    return version("qdrant-edge-py")
