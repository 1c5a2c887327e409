"""Count of the deleted points whose bytes the files of an embedded collection still hold, and since when.

The engine marks a point as deleted and keeps its vector, payload and id in its files. The count is written before the points
are deleted, so a kill leaves it right or too high. It is kept beside the generations: a graph build copies deleted points too.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lodestone.durable_files import write_atomically

FILE: Final = "deleted.json"
COLLECTIONS_DIR: Final = "collections"  # of the store's folder: holds a folder for each collection
# A graph over more numbers (points times length) is not made anew for every deleted point, but after some days.
AT_ONCE_NUMBERS: Final = 50_000_000
AFTER_S: Final = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class DeletedPoints:
    """Number of deleted points, of about `bytes`, and when the first of them was deleted, in seconds since 1970."""

    points: int = 0
    bytes: int = 0
    since: float = 0.0

    def may_wait(self, numbers: int) -> bool:
        """Return whether a graph over so many numbers is left as it is for now."""
        return numbers > AT_ONCE_NUMBERS and time.time() - self.since < AFTER_S


def read_deleted(collection: Path) -> DeletedPoints:
    """Return the count of a collection's folder; zero if there is none, and one since ever if it cannot be read."""
    try:
        facts = json.loads((collection / FILE).read_text(encoding="utf-8"))
        return DeletedPoints(int(facts["points"]), int(facts["bytes"]), float(facts["since"]))
    except FileNotFoundError:
        return DeletedPoints()
    except (OSError, ValueError, KeyError, TypeError):
        return DeletedPoints(points=1)


def add_deleted(collection: Path, points: int, size: int) -> None:
    """Count points that are about to be deleted, of about `size` bytes. Callers exclude each other."""
    before = read_deleted(collection)
    _write(collection, DeletedPoints(before.points + points, before.bytes + size, before.since or time.time()))


def subtract_deleted(collection: Path, erased: DeletedPoints) -> None:
    """Take away what a rewriting has erased; points that were deleted meanwhile stay. Callers exclude each other."""
    now = read_deleted(collection)
    if now.points <= erased.points:
        (collection / FILE).unlink(missing_ok=True)
    else:
        _write(collection, DeletedPoints(now.points - erased.points, max(0, now.bytes - erased.bytes), time.time()))


def _write(collection: Path, count: DeletedPoints) -> None:
    facts = {"points": count.points, "bytes": count.bytes, "since": count.since}
    write_atomically(collection / FILE, json.dumps(facts))
