"""Notes of one query: what failed or was left out in its guide engines and optional stages, and what guides cost."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from lodestone.errors import LodestoneError

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class QueryNotes:
    """`warnings` for failures, `dropped` for what there was no time, budget or need for, each said once; `cost`: charged."""

    warnings: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    cost: float = 0.0

    def failed(self, what: str) -> None:
        """Note what failed, once."""
        if what not in self.warnings:
            self.warnings.append(what)

    def left_out(self, what: str) -> None:
        """Note what was left out, once."""
        if what not in self.dropped:
            self.dropped.append(what)


def describe_failure(error: Exception) -> str:
    """Return the description of a stage's failure for the answer's warnings, and log the failure.

    An unexpected error is logged with its traceback, and named by its type only.
    """
    if isinstance(error, LodestoneError):
        _log.warning("a stage that answers can do without failed: %s", error.message)
        return f"{error.message}{f' ({error.hint})' if error.hint else ''}"
    _log.error("a stage that answers can do without failed", exc_info=error)
    return f"an unexpected {type(error).__name__}, which the log describes"
