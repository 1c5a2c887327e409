"""What did a run meet when it compared files with the catalog?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from lodestone.errors import SourceError
from lodestone.indexing.scan.scope import ScanScope


@dataclass(slots=True)
class Changes:
    """What one run met. Each file is counted once: unchanged, touched, changed, moved, new, back, retried or unreadable.

    Attributes:
        counts: By kind.
        fresh: Ids of pictures that are embedded again although their content is the same (retried failures).
        left: Content hashes that gone and changed pictures had.
        away: Where disks are not mounted -> how many pictures are kept that lay there.
    """

    counts: Counter[str] = field(default_factory=Counter)
    fresh: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    away: Counter[str] = field(default_factory=Counter)


def all_denied(scope: ScanScope, count: int) -> SourceError:
    """Where no new picture of a scope can be read, that is about the rights, not about the pictures."""
    return SourceError(
        f"reading is denied for all {count:,} pictures that are new in {scope.root.path}",
        hint="grant these credentials the right to read objects, not to list alone, and run the same command again",
        reason="denied",
    )
