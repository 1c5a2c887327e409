"""Counts of what a run found when it compared files with the catalog."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from lodestone.errors import SourceError
from lodestone.indexing.scan.scope import ScanScope


@dataclass(slots=True)
class Changes:
    """Result of one run's comparison.

    Each file is counted once: unchanged, touched, changed, moved, new, back, retried or unreadable.

    Attributes:
        counts: Counts by kind.
        fresh: Ids of pictures that are embedded again although their content is the same (retried failures).
        left: Content hashes that gone and changed pictures had.
        left_out: What the listing left out, by kind: videos, recycle bins, …
        away: Mount point of an unmounted disk -> number of pictures on it that are kept.
    """

    counts: Counter[str] = field(default_factory=Counter)
    fresh: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    left_out: Counter[str] = field(default_factory=Counter)
    away: Counter[str] = field(default_factory=Counter)


def all_denied(scope: ScanScope, count: int) -> SourceError:
    """Return the error for a scope in which every read of a new picture was denied: the rights are wrong, not the pictures."""
    return SourceError(
        f"reading is denied for all {count:,} pictures that are new in {scope.root.path}",
        hint="grant these credentials the right to read objects, not to list alone, and run the same command again",
        reason="denied",
    )
